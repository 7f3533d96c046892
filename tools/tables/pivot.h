#ifndef GRADSYNC_TOOLS_TABLES_PIVOT_H_
#define GRADSYNC_TOOLS_TABLES_PIVOT_H_

#include <functional>
#include <string>
#include <vector>

#include "tools/tables/table.h"

// Rows of a table beside each other, for people.
namespace gradsync::tools {

// A column of a wide table, and where its cells come from.
struct WideColumn {
  Column column;
  std::string from{};     // a column of the long table
  std::string heading{};  // of the rows that they come from; empty: the same in all rows of a line
};

// Adds to `wide`, which must have those columns, a line for neighbours among the rows of `rows` with these
// numbers that agree in all columns without a heading. A heading that its line has already begins another.
// What is marked stays so.
void AddLines(const Table& rows, const std::vector<size_t>& numbers,
              const std::function<std::string(size_t row)>& heading_of,
              const std::vector<WideColumn>& columns, Table* wide);

std::vector<Column> ColumnsOf(const std::vector<WideColumn>& columns);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_PIVOT_H_
