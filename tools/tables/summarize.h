#ifndef GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
#define GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/records/reader.h"
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

// Reads the records and makes the tables. Throws InvalidInput if an input does not exist, or if no record has
// the strategy `baseline_row`.
Summary Summarize(const SummarizeOptions& options);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_SUMMARIZE_H_
