#ifndef GRADSYNC_TOOLS_REPORTS_ROWS_H_
#define GRADSYNC_TOOLS_REPORTS_ROWS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tables/table.h"

// How the report reads tables: cells by the names of their columns. Nothing else in this folder knows where a
// table keeps a value.
namespace gradsync::tools {

class TableReader {
 public:
  // Keeps a reference to the table.
  explicit TableReader(const Table& table);

  size_t num_rows() const { return table_.num_rows(); }
  // NaN, or empty, without such a column or where it holds the other kind.
  double Number(size_t row, std::string_view column) const;
  std::string Text(size_t row, std::string_view column) const;
  // Of its column "flags"; none without.
  Flags FlagsOf(size_t row) const;
  // For people: a text as it is, a number in full; empty without value.
  std::string Any(size_t row, std::string_view column) const;
  // Whether all rows have the same value there; true without such a column.
  bool IsConstant(std::string_view column) const;
  // The different values of a column: texts in the order of their first rows, numbers in ascending order.
  std::vector<std::string> Values(std::string_view column) const;

 private:
  const Table& table_;
  std::map<std::string, size_t, std::less<>> columns_;
};

// Null if there is none of that name with rows.
const Table* FindTable(const std::vector<Table>& tables, std::string_view name);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_ROWS_H_
