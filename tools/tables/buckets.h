#ifndef GRADSYNC_TOOLS_TABLES_BUCKETS_H_
#define GRADSYNC_TOOLS_TABLES_BUCKETS_H_

#include <string>
#include <vector>

#include "tools/tables/builder.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// Adds the table of buckets: of each, when it is ready, and what of it the step waits for. Nothing if the
// records of no row have moments.
void AddBucketsTable(const std::string& name, const std::vector<Measured>& rows, std::vector<Table>* tables);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_BUCKETS_H_
