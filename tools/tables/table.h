#ifndef GRADSYNC_TOOLS_TABLES_TABLE_H_
#define GRADSYNC_TOOLS_TABLES_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tools/records/text_pool.h"

namespace gradsync::tools {

// How people are shown a column's values. Machines get numbers in full.
enum class Kind {
  kText,
  kInteger,
  kPlain,       // as short as six digits allow: 1, 0.25
  kDecimal,     // as many decimals as the column's smaller values need for Column::digits
  kFraction,    // three decimals
  kPercent,     // one decimal and a sign
  kScientific,  // two digits and an exponent
};

// In which format a column, or a table, appears.
enum class Audience { kAll, kPeople, kMachines };

struct Column {
  std::string name;
  Kind kind = Kind::kDecimal;
  Audience audience = Audience::kAll;

  // The rest is for people, who cannot read thirty columns at once: a table is shown to them in panels, one
  // below the other, with the same rows.
  int digits = 4;          // of kDecimal
  int panel = 0;           // where the column is shown; 0: in every panel
  bool said_once = false;  // with one value in all rows it is said above the table instead
  bool leads = false;      // comes before those that do not
  std::string
      interval_name{};  // not empty: this and the next column, itself for machines, are one, "[low, high]"
};

// A value: text, or a number (NaN: none).
using Cell = std::variant<double, std::string>;

// Rows under columns. Stored by columns, equal texts once, and what is the same in all rows once, so that a
// row takes at most about eight bytes a cell.
class Table {
 public:
  // `name`: for machines. `title`: a line for people, empty for none.
  Table(std::string name, std::string title, std::vector<Column> columns, Audience audience = Audience::kAll);

  // One cell for each column, of its kind. Throws InvalidInput otherwise.
  void AddRow(const std::vector<Cell>& cells);
  // Marks a number of the last row: people see an asterisk behind it.
  void MarkLast(std::string_view column);
  void MarkLast(size_t column);
  void SetAudience(Audience audience) { audience_ = audience; }
  // What people read above a panel.
  void SetPanelTitle(int panel, std::string title) { panel_titles_[panel] = std::move(title); }
  // A sentence that says what the data show, no more than they carry. People read it above the table.
  void AddFinding(std::string finding) { findings_.push_back(std::move(finding)); }
  // A line that people read under the table.
  void AddNote(std::string note) { notes_.push_back(std::move(note)); }

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  Audience audience() const { return audience_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::string>& findings() const { return findings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Empty if it has none.
  std::string panel_title(int panel) const;
  size_t num_rows() const { return num_rows_; }

  bool is_text(size_t column) const { return columns_[column].kind == Kind::kText; }
  double number(size_t row, size_t column) const { return data_[column].numbers.at(row); }
  std::vector<Cell> row(size_t row) const;
  // Valid until the next AddRow.
  std::string_view text(size_t row, size_t column) const {
    return data_[column].texts.text(data_[column].texts_of_rows.at(row));
  }
  bool marked(size_t row, size_t column) const;
  // Whether all rows have the same value there; false without rows.
  bool is_constant(size_t column) const;

 private:
  // A value for each row; while all are the same, only once.
  template <class T>
  class Values {
   public:
    void Append(T value, size_t num_rows) {
      if (num_rows == 0) first_ = value;
      if (values_.empty() && !Same(value, first_)) values_.assign(num_rows, first_);
      if (!values_.empty()) values_.push_back(value);
    }
    T at(size_t row) const { return values_.empty() ? first_ : values_[row]; }
    bool is_constant() const { return values_.empty(); }

   private:
    static bool Same(T a, T b) { return a == b || (a != a && b != b); }  // NaN is the same as NaN

    T first_{};
    std::vector<T> values_;
  };

  struct Data {
    Values<double> numbers;
    Values<uint32_t> texts_of_rows;  // numbers in texts
    TextPool texts;
    std::vector<bool> marks;  // empty: none
  };

  std::string name_;
  std::string title_;
  std::vector<Column> columns_;
  Audience audience_;
  std::vector<Data> data_;
  std::map<int, std::string> panel_titles_;
  std::vector<std::string> findings_;
  std::vector<std::string> notes_;
  size_t num_rows_ = 0;
};

struct Report {
  std::vector<std::string> header;  // Markdown, for people: what was run, where, how
  std::vector<Table> tables;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_TABLE_H_
