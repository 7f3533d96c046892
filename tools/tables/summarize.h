#ifndef GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
#define GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/records/problems.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

struct SummarizeOptions {
  std::vector<std::string> inputs;  // files, or directories with *.jsonl in them
  // A strategy; empty: of `compare` core, of others naive. Where a cell has none of that name, its first.
  std::string baseline_row;
  std::optional<int> resamples;  // of a bootstrap; empty: 2000, fewer for very many rows
};

struct Summary {
  Report report;
  Problems problems;
  int64_t num_records = 0;           // used
  std::vector<std::string> remarks;  // a line each, about the tables as a whole
};

// Reads the records and makes the tables. Works through them cell by cell, so that memory is needed for the
// tables and 48 bytes a record. Throws InvalidInput if an input does not exist, or if no record has the
// strategy `baseline_row`.
Summary Summarize(const SummarizeOptions& options);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
