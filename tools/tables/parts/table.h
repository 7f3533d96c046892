#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/measurements/validity.h"
#include "tools/statistics/estimates.h"

namespace gradsync::tools {

// Says whether a column has text or numbers, and with how many digits tables for people show the numbers.
// Formats for programs (CSV, for example) have all digits.
enum class Kind {
  kText,
  kInteger,
  kPlain,    // shortest form with at most six digits: 1, 0.25
  kDecimal,  // so many decimals that the column's small values have Column::digits digits
  // For numbers that users add up, such as the parts of a cost: all values of the column have the same number
  // of decimals, chosen so that the largest value has Column::digits significant digits.
  kPart,
  kFraction,  // three decimals
  kPercent,   // one decimal and a sign
};

// Audience tells whether people, machines or both see a column or a table. Markdown, LaTeX and the member
// "shown" of JSON are for people; CSV and the member "tables" of JSON are for machines.
enum class Audience { kAll, kPeople, kMachines };

// A table for people does not show a column whose Column::section is kNowhere. But if the column has the same
// value in all rows and Column::said_once is true, Markdown and LaTeX print the value above the table. CSV
// and the member "tables" of JSON show the column unless its audience is kPeople.
inline constexpr int kNowhere = -1;

struct Column {
  std::string name;
  Kind kind = Kind::kDecimal;
  Audience audience = Audience::kAll;

  // Header that users see instead of `name`. If `header` is empty, users see `name`, followed by " [95 % CI]"
  // if cells show intervals.
  std::string header{};

  // The members from `times` to `marked_with` change only what people see, neither CSV nor "tables" of JSON.
  // For people, a table with many columns is printed in sections, one below the other; each section has all
  // rows and some of the columns. `times` is a factor: people see the column's numbers multiplied by it, in
  // the unit of `header`.
  double times = 1;
  int digits = 4;  // digits for kDecimal and kPart
  // Number of the table's section that shows the column; 0 if every section shows it; kNowhere if none does.
  int section = 0;
  // If true, and all rows have the same value in this column, the value is printed above the table instead of
  // in a column.
  bool said_once = false;
  // If true, the two columns after this one have the lower and the upper ends of the intervals of this
  // column's values. Only CSV and the member "tables" of JSON show these two columns; people see the ends in
  // the cells of this column.
  bool has_interval = false;
  std::optional<Warning> marked_with{};  // numbers are marked in rows with this warning
};

// The content of a table's cell: a number (NaN if it is missing), a text, or the warnings about the row.
using TableCell = std::variant<double, std::string, Warnings>;

class Table {
 public:
  // `name` identifies the table in CSV, in JSON and in the flag --table. `title` is printed for users, and
  // may be empty.
  Table(std::string name, std::string title, std::vector<Column> columns, Audience audience = Audience::kAll);

  void AddRow(std::vector<TableCell> cells);
  // Marks the cell of the last row in the column `name`: an asterisk follows a number, and a text becomes
  // bold. Throws InvalidInput if there is no such column.
  void MarkLast(std::string_view name) { MarkLast(column(name)); }
  void MarkLast(size_t column) { rows_.back().marked.insert(column); }
  // If `is_detail` is true, Markdown and LaTeX show the table only with the flag --details, or if the flag
  // --table names it.
  void SetDetail(bool is_detail = true) { is_detail_ = is_detail; }
  void SetSectionTitle(int section, std::string title) { section_titles_[section] = std::move(title); }
  // Adds a sentence about what the table's data show, which users see above the table.
  void AddFinding(std::string finding) { findings_.push_back(std::move(finding)); }
  // Adds a line that users see below the table, unless the line is empty.
  void AddNote(std::string note) {
    if (!note.empty()) notes_.push_back(std::move(note));
  }

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  Audience audience() const { return audience_; }
  bool is_detail() const { return is_detail_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  std::string section_title(int section) const;
  size_t num_rows() const { return rows_.size(); }

  // Returns the index of the column whose Column::name is `name`. Throws InvalidInput if there is no such
  // column.
  size_t column(std::string_view name) const;
  bool is_text(size_t column) const { return columns_[column].kind == Kind::kText; }
  double number(size_t row, size_t column) const { return std::get<double>(cell(row, column)); }
  // Returns the text of a cell that has no number: its own text or, if it has warnings, TextOf(warnings).
  std::string text(size_t row, size_t column) const;
  const TableCell& cell(size_t row, size_t column) const { return rows_[row].cells[column]; }
  const std::vector<TableCell>& row(size_t row) const { return rows_[row].cells; }
  bool marked(size_t row, size_t column) const { return rows_[row].marked.contains(column); }
  // Returns whether a column of the table shows `warning` by an asterisk behind the column's numbers
  // (Column::marked_with).
  bool is_mark(Warning warning) const;
  // Returns whether all rows have the same value in the column of index `column`, or no row has a value
  // there; false if only some rows have a value, or if the table has no rows.
  bool is_constant(size_t column) const;

 private:
  struct Line {
    std::vector<TableCell> cells;
    std::set<size_t> marked;  // columns of marked cells
  };

  std::string name_;
  std::string title_;
  std::vector<Column> columns_;
  Audience audience_;
  bool is_detail_ = false;
  std::vector<Line> rows_;
  std::map<int, std::string> section_titles_;
  std::vector<std::string> findings_;
  std::vector<std::string> notes_;
};

// Returns the warnings in the cells of `tables`, whose meanings a report prints. Without `with_details`,
// leaves out warnings that a table shows only by asterisks behind numbers (Table::is_mark).
std::set<Warning> WarningsIn(const std::vector<Table>& tables, bool with_details = true);

struct RunText {
  std::string experiment{}, run{}, time{}, ranks{}, command{}, machine{}, software{};
};

struct Report {
  std::vector<std::string> header;  // Markdown for users
  std::vector<Table> tables;
  std::vector<RunText> runs{};
};

}  // namespace gradsync::tools
