#pragma once

#include <vector>

#include "tools/analysis/rows.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// The list of files of tables, in the order in which a report shows the tables. Each file defines
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

// Adds the tables of all files.
void AddAllTables(const Settings& settings, std::vector<Table>* tables);

}  // namespace gradsync::tools
