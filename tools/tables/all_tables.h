#ifndef GRADSYNC_TOOLS_TABLES_ALL_TABLES_H_
#define GRADSYNC_TOOLS_TABLES_ALL_TABLES_H_

#include <vector>

#include "tools/tables/rows.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// One row per file of tables, in the order in which a report shows them. The file defines
// Add...Tables(settings, tables).
#define GRADSYNC_TABLES(ROW) \
  ROW(AllReduce)             \
  ROW(Training)              \
  ROW(Memory)                \
  ROW(Update)                \
  ROW(Links)                 \
  ROW(Bucket)                \
  ROW(Peers)

#define GRADSYNC_DECLARE(Name) void Add##Name##Tables(const Settings& settings, std::vector<Table>* tables);
GRADSYNC_TABLES(GRADSYNC_DECLARE)
#undef GRADSYNC_DECLARE

// All of them.
void AddAllTables(const Settings& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_ALL_TABLES_H_
