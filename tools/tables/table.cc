#include "tools/tables/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {

Table::Table(std::string name, std::string title, std::vector<Column> columns, Audience audience)
    : name_(std::move(name)),
      title_(std::move(title)),
      columns_(std::move(columns)),
      audience_(audience),
      data_(columns_.size()) {}

void Table::AddRow(const std::vector<Cell>& cells) {
  Require(cells.size() == columns_.size(), "table ", name_, ": a row of ", cells.size(), " cells, expected ",
          columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    Require(std::holds_alternative<std::string>(cells[i]) == is_text(i), "table ", name_, ": column ",
            columns_[i].name, " takes ", is_text(i) ? "text" : "a number");
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    Data& data = data_[i];
    if (is_text(i)) {
      data.texts_of_rows.Append(data.texts.Intern(std::get<std::string>(cells[i])), num_rows_);
    } else {
      data.numbers.Append(std::get<double>(cells[i]), num_rows_);
    }
  }
  ++num_rows_;
}

std::vector<Cell> Table::row(size_t row) const {
  std::vector<Cell> cells;
  for (size_t i = 0; i < columns_.size(); ++i) {
    cells.push_back(is_text(i) ? Cell(std::string(text(row, i))) : Cell(number(row, i)));
  }
  return cells;
}

void Table::MarkLast(std::string_view column) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == column) return MarkLast(i);
  }
  throw InvalidInput(Join("table ", name_, ": no column ", column));
}

void Table::MarkLast(size_t column) {
  std::vector<bool>& marks = data_.at(column).marks;
  marks.resize(num_rows_, false);
  marks.back() = true;
}

std::string Table::panel_title(int panel) const {
  const auto found = panel_titles_.find(panel);
  return found == panel_titles_.end() ? "" : found->second;
}

bool Table::marked(size_t row, size_t column) const {
  const std::vector<bool>& marks = data_[column].marks;
  return row < marks.size() && marks[row];
}

bool Table::is_constant(size_t column) const {
  if (num_rows_ == 0) return false;
  const Data& data = data_[column];
  return is_text(column) ? data.texts_of_rows.is_constant() : data.numbers.is_constant();
}

}  // namespace gradsync::tools
