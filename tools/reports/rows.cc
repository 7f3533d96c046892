#include "tools/reports/rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>

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

std::vector<std::string> FlagsOf(const std::string& cell) {
  std::istringstream stream(cell);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string FlagCell(const std::vector<std::string>& flags) {
  std::string cell;
  for (const std::string& flag : flags) cell += (cell.empty() ? "" : " ") + flag;
  return cell;
}

std::string FlagName(std::string_view flag) { return std::string(flag.substr(0, flag.find(':'))); }

std::optional<std::pair<std::string, std::string>> FlagExplainedBy(const std::string& note) {
  const size_t end = note.find("`: ", 1);
  if (!note.starts_with('`') || end == std::string::npos) return std::nullopt;
  return std::pair{note.substr(1, end - 1), note.substr(end + 3)};
}

}  // namespace gradsync::tools
