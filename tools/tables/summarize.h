#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"
#include "tools/measurements/reader.h"
#include "tools/tables/convergence.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

struct Summary {
  // Groups of the settings; moving a Summary keeps the addresses of groups and settings.
  std::vector<Group> groups;
  std::vector<Setting> measured;
  Settings settings;                   // the settings of all groups
  std::vector<Group> learning_groups;  // groups of learning settings; moving a Summary keeps their addresses
  std::vector<LearningSetting> learning;
  std::vector<const bench::Record*> runs;  // one record of each run
  Report report;                           // tables of the settings
  Problems problems;
  int64_t num_records = 0;           // number of records that were used
  std::vector<std::string> remarks;  // remarks about all tables, one line each
};

// Returns the reason why no table can contain the record; empty if a table can contain it.
std::string WhyUnusable(const bench::Record& record);

// Reads the records and makes the tables. `inputs` are files, or directories with *.jsonl files.
// `baseline_row` is a strategy or a variant; if it is empty, kDefaultBaseline. If a setting has no such row,
// its first row is the baseline. `run` selects the launches of one set by the id of the first launch; if it
// is empty, all launches are used. Throws InvalidInput if an input does not exist, or if no record is of
// `run` or has `baseline_row`.
Summary Summarize(const std::vector<std::string>& inputs, const std::string& baseline_row = "",
                  const std::string& run = "");

}  // namespace gradsync::tools
