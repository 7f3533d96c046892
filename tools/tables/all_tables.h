#pragma once

#include <vector>

#include "tools/analysis/rows.h"
#include "tools/tables/parts/table.h"

namespace gradsync::tools {

// A list, as a macro, of the kinds of tables that AddAllTables appends, in the order in which a report shows
// them. For each name in the list there is a function: for Memory, AddMemoryTables(settings, tables) appends
// the tables of the kind Memory to `tables`.
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

void AddAllTables(const Settings& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools
