#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/records/reader.h"
#include "tools/tables/convergence.h"
#include "tools/tables/rows.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

struct Summary {
  std::vector<Group> groups;  // that the settings are of; moving a Summary leaves both where they are
  std::vector<Setting> measured;
  Settings settings;                   // all of these
  std::vector<Group> learning_groups;  // likewise
  std::vector<LearningSetting> learning;
  std::vector<const bench::Record*> runs;  // one record of each
  Report report;                           // tables of the settings
  Problems problems;
  int64_t num_records = 0;           // used
  std::vector<std::string> remarks;  // a line each, about the tables as a whole
};

// Why no table can hold the record; empty if one can.
std::string WhyUnusable(const bench::Record& record);

// Reads the records and makes the tables. `inputs`: files, or directories with *.jsonl in them.
// `baseline_row`: a strategy or a variant; empty: kDefaultBaseline. Where a setting has none of that name,
// its first row. `run`: the launches that began with this run alone; empty: all. Throws InvalidInput if an
// input does not exist, or if none is of `run` or has `baseline_row`.
Summary Summarize(const std::vector<std::string>& inputs, const std::string& baseline_row = "",
                  const std::string& run = "");

}  // namespace gradsync::tools
