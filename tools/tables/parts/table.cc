#include "tools/tables/parts/table.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"

namespace gradsync::tools {

Table::Table(std::string name, std::string title, std::vector<Column> columns, Audience audience)
    : name_(std::move(name)), title_(std::move(title)), columns_(std::move(columns)), audience_(audience) {}

void Table::AddRow(std::vector<TableCell> cells) {
  rows_.push_back({std::move(cells), {}});
  for (size_t i = 0; i < columns_.size(); ++i) {
    for (const TableCell& cell : rows_.back().cells) {
      const Warnings* const warnings = std::get_if<Warnings>(&cell);
      if (columns_[i].marked_with && warnings != nullptr && Has(*warnings, *columns_[i].marked_with))
        MarkLast(i);
    }
  }
}

bool Table::is_constant(size_t column) const {
  const auto is_none = [](const TableCell& cell) {
    const double* const number = std::get_if<double>(&cell);
    return number != nullptr && std::isnan(*number);
  };
  return !rows_.empty() && std::ranges::all_of(rows_, [&](const Line& row) {
    const TableCell &own = row.cells[column], &first = rows_[0].cells[column];
    return own == first || (is_none(own) && is_none(first));
  });
}

size_t Table::column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  Require(found != columns_.end(), "table ", name_, ": no column ", name);
  return static_cast<size_t>(found - columns_.begin());
}

std::string Table::text(size_t row, size_t column) const {
  const Warnings* const warnings = std::get_if<Warnings>(&cell(row, column));
  return warnings != nullptr ? TextOf(*warnings) : std::get<std::string>(cell(row, column));
}

std::string Table::section_title(int section) const {
  const auto found = section_titles_.find(section);
  return found == section_titles_.end() ? "" : found->second;
}

bool Table::is_mark(Warning warning) const {
  return std::ranges::any_of(columns_,
                             [warning](const Column& column) { return column.marked_with == warning; });
}

std::set<Warning> WarningsIn(const std::vector<Table>& tables, bool with_details) {
  std::set<Warning> found;
  for (const Table& table : tables) {
    for (size_t row = 0; row < table.num_rows(); ++row) {
      for (const TableCell& cell : table.row(row)) {
        const Warnings* const warnings = std::get_if<Warnings>(&cell);
        if (warnings == nullptr) continue;
        for (const RowWarning& own : *warnings) {
          if (with_details || !table.is_mark(own.kind)) found.insert(own.kind);
        }
      }
    }
  }
  return found;
}

}  // namespace gradsync::tools
