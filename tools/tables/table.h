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

#include "tools/records/validity.h"
#include "tools/statistics/estimates.h"

namespace gradsync::tools {

// How people are shown a column's values. Machines get numbers in full.
enum class Kind {
  kText,
  kInteger,
  kPlain,     // as short as six digits allow: 1, 0.25
  kDecimal,   // as many decimals as the column's smaller values need for Column::digits
  kPart,      // of a sum: as many decimals for all as the column's largest needs for Column::digits
  kFraction,  // three decimals
  kPercent,   // one decimal and a sign
};

// In which format a column, or a table, appears.
enum class Audience { kAll, kPeople, kMachines };

// A section that is not shown: what is said above the table, or to machines alone.
inline constexpr int kNowhere = -1;

struct Column {
  std::string name;
  Kind kind = Kind::kDecimal;
  Audience audience = Audience::kAll;

  std::string header{};  // what people read instead of the name and of what its interval is; empty: those

  // The rest is for people, who cannot read thirty columns at once: a table is shown to them in sections, one
  // below the other, with the same rows.
  double times = 1;                      // so many times the value is shown, in the unit of `header`
  int digits = 4;                        // of kDecimal and kPart
  int section = 0;                       // where the column is shown; 0: in every section; kNowhere: in none
  bool said_once = false;                // with one value in all rows it is said above the table instead
  bool has_interval = false;             // the next two columns, for machines, are the ends of its interval
  std::optional<Warning> marked_with{};  // numbers are marked in rows with this warning
};

// A value: a number (NaN: none), or text, which may be that of warnings.
using TableCell = std::variant<double, std::string, Warnings>;

// Rows under columns.
class Table {
 public:
  // `name`: for machines. `title`: a line for people, empty for none.
  Table(std::string name, std::string title, std::vector<Column> columns, Audience audience = Audience::kAll);

  // One cell for each column, of its kind.
  void AddRow(std::vector<TableCell> cells);
  // Marks a cell of the last row: people see an asterisk behind a number, and text in bold. Throws
  // InvalidInput if there is no such column.
  void MarkLast(std::string_view name) { MarkLast(column(name)); }
  void MarkLast(size_t column) { rows_.back().marked.insert(column); }
  // People see it with --details only; of other tables they see the first section without it.
  void SetDetail(bool is_detail = true) { is_detail_ = is_detail; }
  // What people read above a section.
  void SetSectionTitle(int section, std::string title) { section_titles_[section] = std::move(title); }
  // A sentence that says what the data show, no more than they carry. People read it above the table.
  void AddFinding(std::string finding) { findings_.push_back(std::move(finding)); }
  // A line that people read under the table.
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  Audience audience() const { return audience_; }
  bool is_detail() const { return is_detail_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Empty if it has none.
  std::string section_title(int section) const;
  size_t num_rows() const { return rows_.size(); }

  // The number of a column.
  size_t column(std::string_view name) const;
  bool is_text(size_t column) const { return columns_[column].kind == Kind::kText; }
  double number(size_t row, size_t column) const { return std::get<double>(cell(row, column)); }
  // The text of a cell; in a column of warnings, what they say.
  std::string text(size_t row, size_t column) const;
  const TableCell& cell(size_t row, size_t column) const { return rows_[row].cells[column]; }
  const std::vector<TableCell>& row(size_t row) const { return rows_[row].cells; }
  bool marked(size_t row, size_t column) const { return rows_[row].marked.contains(column); }
  // Whether a column's numbers are marked in rows with this warning.
  bool is_mark(Warning warning) const;
  // Whether all rows have the same value there, or none; false without rows.
  bool is_constant(size_t column) const;

 private:
  struct Line {
    std::vector<TableCell> cells;
    std::set<size_t> marked;  // columns
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

// The warnings that occur in the tables, for people to be told what they mean; those that mark a number are
// in question only where people see the number, with --details.
std::set<Warning> WarningsIn(const std::vector<Table>& tables, bool with_details = true);

// What was run, where and how; of figures that others published only what they tell.
struct RunText {
  std::string experiment{}, run{}, time{}, ranks{}, command{}, machine{}, software{};
};

struct Report {
  std::vector<std::string> header;  // Markdown, for people
  std::vector<Table> tables;
  std::vector<RunText> runs{};
};

}  // namespace gradsync::tools
