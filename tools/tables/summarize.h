#ifndef GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
#define GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/records/reader.h"
#include "tools/tables/convergence.h"
#include "tools/tables/rows.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

struct Summary {
  std::vector<Group> groups;  // that the cells are of; moving a Summary leaves them where they are
  std::vector<Cell> cells;
  std::vector<Group> learning_groups;  // likewise
  std::vector<LearningCell> learning;
  std::vector<const bench::Record*> runs;  // one record of each
  Report report;                           // tables of the cells
  Problems problems;
  int64_t num_records = 0;           // used
  std::vector<std::string> remarks;  // a line each, about the tables as a whole

  Summary() = default;
  Summary(Summary&&) = default;
  Summary& operator=(Summary&&) = default;
};

// Why no table can hold the record; empty if one can.
std::string WhyUnusable(const bench::Record& record);

// Reads the records and makes the tables. `inputs`: files, or directories with *.jsonl in them.
// `baseline_row`: a strategy or a variant; empty: kDefaultBaseline. Where a cell has none of that name, its
// first row. `run`: the launches that began with this run alone; empty: all. Throws InvalidInput if
// an input does not exist, or if none is of `run` or has `baseline_row`.
Summary Summarize(const std::vector<std::string>& inputs, const std::string& baseline_row = "",
                  const std::string& run = "");

struct Comparison {
  struct Verdict {
    bool fails = false;  // else it is a warning
    std::string text{};
  };

  Summary summary;                  // with one table, "regression"
  int64_t num_matched = 0;          // rows that both have
  int64_t num_compared = 0;         // of these, the ones with steps enough
  std::vector<Verdict> verdicts{};  // what is against `here`
};

// Compares two sets of results row by row: `here`, files or directories with *.jsonl in them, with `there`,
// one of either. A row is an experiment, a world size, a cell and a variant; what a run decided for itself
// (seed, placement, how many steps) may differ, and so may commit and host. The steps of several runs of one
// row are put together, as launches. A remark says where host, processor, build or link differ. Throws
// InvalidInput if an input does not exist.
Comparison CompareDirs(const std::vector<std::string>& here, const std::string& there);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
