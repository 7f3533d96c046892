#ifndef GRADSYNC_TOOLS_IMPORT_RECORDS_H_
#define GRADSYNC_TOOLS_IMPORT_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/import/figures.h"

namespace gradsync::tools {

// What the figures themselves do not say, and the user may.
struct ImportOptions {
  std::string run_id;                   // "published-000"
  std::string source;                   // the file's name, for the record
  std::string strategy;                 // of a grid; empty: as Figures::strategy_word
  std::vector<std::string> strategies;  // of the rows of a DDP table without such a column, in turn
  std::optional<int64_t> world_size;    // of all; empty: as the protocol of the kind has it
};

// Records without samples. What was measured how is taken from the protocol of each kind of table, one row
// of which is in the source; everything that it claims is in the record's config and facts. Throws
// InvalidInput if there are no figures, or if no strategy is known for a grid.
std::vector<bench::Record> RecordsOf(const Figures& figures, const ImportOptions& options);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_IMPORT_RECORDS_H_
