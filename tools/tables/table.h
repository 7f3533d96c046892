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

// How a column's values are printed for users. Formats for machines have all digits.
enum class Kind {
  kText,
  kInteger,
  kPlain,    // shortest form with at most six digits: 1, 0.25
  kDecimal,  // number of decimals with which the column's small values have Column::digits digits
  // For parts of a sum: number of decimals with which the column's largest value has Column::digits digits.
  kPart,
  kFraction,  // three decimals
  kPercent,   // one decimal and a sign
};

// The formats in which a column or a table appears.
enum class Audience { kAll, kPeople, kMachines };

// The section of columns that are not in the table, but are printed above it or appear only in formats for
// machines.
inline constexpr int kNowhere = -1;

struct Column {
  std::string name;
  Kind kind = Kind::kDecimal;
  Audience audience = Audience::kAll;

  // Header for users, which replaces the name and the description of the interval; may be empty.
  std::string header{};

  // The following fields are for users. A table with many columns is printed in sections, one below the
  // other, and each section has all rows.
  // The printed value is the value multiplied by this factor, in the unit of `header`.
  double times = 1;
  int digits = 4;  // digits for kDecimal and kPart
  // Section of the column; 0 for every section; kNowhere for no section.
  int section = 0;
  // If all rows have one value, it is printed above the table instead of in the column.
  bool said_once = false;
  // The next two columns, for machines, are the ends of the column's interval.
  bool has_interval = false;
  std::optional<Warning> marked_with{};  // numbers are marked in rows with this warning
};

// A value: a number (NaN if there is none), a text, or warnings.
using TableCell = std::variant<double, std::string, Warnings>;

// A table has columns and rows.
class Table {
 public:
  // `name` is the name for machines. `title` is a line for users, and may be empty.
  Table(std::string name, std::string title, std::vector<Column> columns, Audience audience = Audience::kAll);

  // Adds a row with one cell for each column. The type of a cell must fit the column's kind.
  void AddRow(std::vector<TableCell> cells);
  // Marks a cell of the last row. A marked number is followed by an asterisk, and a marked text is bold.
  // Throws InvalidInput if there is no such column.
  void MarkLast(std::string_view name) { MarkLast(column(name)); }
  void MarkLast(size_t column) { rows_.back().marked.insert(column); }
  // Sets that users see the table only with --details. Without --details, users see the first section of all
  // other tables.
  void SetDetail(bool is_detail = true) { is_detail_ = is_detail; }
  // Sets the title of a section.
  void SetSectionTitle(int section, std::string title) { section_titles_[section] = std::move(title); }
  // Adds a sentence about what the data show. The sentence is printed above the table.
  void AddFinding(std::string finding) { findings_.push_back(std::move(finding)); }
  // Adds a line that is printed below the table. An empty note is not added.
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
  // Returns the title of a section; empty if the section has no title.
  std::string section_title(int section) const;
  size_t num_rows() const { return rows_.size(); }

  // Returns the index of a column.
  size_t column(std::string_view name) const;
  bool is_text(size_t column) const { return columns_[column].kind == Kind::kText; }
  double number(size_t row, size_t column) const { return std::get<double>(cell(row, column)); }
  // Returns the text of a cell; for warnings, their text.
  std::string text(size_t row, size_t column) const;
  const TableCell& cell(size_t row, size_t column) const { return rows_[row].cells[column]; }
  const std::vector<TableCell>& row(size_t row) const { return rows_[row].cells; }
  bool marked(size_t row, size_t column) const { return rows_[row].marked.contains(column); }
  // Returns whether a column's numbers are marked in rows with this warning.
  bool is_mark(Warning warning) const;
  // Returns whether all rows have one value in this column, or all have no value; false without rows.
  bool is_constant(size_t column) const;

 private:
  struct Line {
    std::vector<TableCell> cells;
    std::set<size_t> marked;  // indices of marked columns
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

// Returns the warnings that occur in the tables, so that their meanings can be printed. Warnings that mark a
// number are included only if users see the number, which needs --details.
std::set<Warning> WarningsIn(const std::vector<Table>& tables, bool with_details = true);

// The program, the machine and the command of a run. For published figures, only published facts.
struct RunText {
  std::string experiment{}, run{}, time{}, ranks{}, command{}, machine{}, software{};
};

struct Report {
  std::vector<std::string> header;  // Markdown for users
  std::vector<Table> tables;
  std::vector<RunText> runs{};
};

}  // namespace gradsync::tools
