#include "tools/reports/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "model/error.h"

namespace gradsync::tools {

TableReader::TableReader(const Table& table) : table_(table) {
  for (size_t i = 0; i < table.columns().size(); ++i) columns_.emplace(table.columns()[i].name, i);
}

double TableReader::Number(size_t row, std::string_view column) const {
  const auto found = columns_.find(column);
  const bool has_number = found != columns_.end() && !table_.is_text(found->second);
  return has_number ? table_.number(row, found->second) : std::numeric_limits<double>::quiet_NaN();
}

std::string TableReader::Text(size_t row, std::string_view column) const {
  const auto found = columns_.find(column);
  const bool has_text = found != columns_.end() && table_.is_text(found->second);
  return has_text ? std::string(table_.text(row, found->second)) : "";
}

Flags TableReader::FlagsOf(size_t row) const {
  const auto found = columns_.find("flags");
  if (found == columns_.end()) return {};
  const Flags* const flags = std::get_if<Flags>(&table_.cell(row, found->second));
  return flags == nullptr ? Flags() : *flags;
}

std::string TableReader::Any(size_t row, std::string_view column) const {
  const double number = Number(row, column);
  return std::isnan(number) ? Text(row, column) : Join(number);
}

bool TableReader::IsConstant(std::string_view column) const {
  const auto found = columns_.find(column);
  return found == columns_.end() || table_.is_constant(found->second);
}

std::vector<std::string> TableReader::Values(std::string_view column) const {
  std::vector<std::string> values;
  std::set<double> numbers;
  for (size_t row = 0; row < num_rows(); ++row) {
    const double number = Number(row, column);
    if (!std::isnan(number)) numbers.insert(number);
    const std::string text = Text(row, column);
    if (!text.empty() && std::ranges::count(values, text) == 0) values.push_back(text);
  }
  for (const double number : numbers) values.push_back(Join(number));
  return values;
}

const Table* FindTable(const std::vector<Table>& tables, std::string_view name) {
  const auto found = std::ranges::find(tables, name, &Table::name);
  return found == tables.end() || found->num_rows() == 0 ? nullptr : &*found;
}

}  // namespace gradsync::tools
