#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"
#include "tools/measurements/reader.h"
#include "tools/tables/convergence.h"
#include "tools/tables/parts/table.h"

namespace gradsync::tools {

struct Summary {
  // Elements of `measured` point to measurements in `groups`, and elements of `settings` point to elements of
  // `measured`. These pointers stay valid when a Summary is moved.
  std::vector<Group> groups;
  std::vector<Setting> measured;
  Settings settings;                   // names and addresses of all of `measured`
  std::vector<Group> learning_groups;  // groups of //bench:convergence, to which `learning` points
  std::vector<LearningSetting> learning;
  std::vector<const bench::Record*> runs;  // one record of each run
  Report report;                           // all tables, also of `learning`
  Problems problems;
  int64_t num_records = 0;           // number of records that were used
  std::vector<std::string> remarks;  // remarks about all tables, one line each
};

// Returns the reason why no table can show the record; empty if a table can show the record.
std::string WhyUnusable(const bench::Record& record);

// Reads the benchmark records in `inputs`, which are files or directories, and makes all tables of results.
// `baseline_row` is the strategy or variant with whose step times those of other rows are compared. An empty
// `baseline_row` stands for the strategy kDefaultBaseline. A setting (a model, batch size, ...) without a row
// of `baseline_row` gets another baseline (see MakeSettings). If `run` is not empty, only the run whose name
// is `run` is used, with all its launches. The name of a run is NAME if its launches had the environment
// variable GRADSYNC_LAUNCH=NAME,i; otherwise the run id of its first launch. Throws InvalidInput if one of
// `inputs` does not exist, or if measurements of //bench:convergence were trained on different texts. If
// records were read, also throws InvalidInput for a `run` that no record is from, or a `baseline_row` that no
// setting has.
Summary Summarize(const std::vector<std::string>& inputs, const std::string& baseline_row = "",
                  const std::string& run = "");

}  // namespace gradsync::tools
