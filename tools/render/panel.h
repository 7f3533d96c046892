#ifndef GRADSYNC_TOOLS_RENDER_PANEL_H_
#define GRADSYNC_TOOLS_RENDER_PANEL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tools/tables/table.h"

namespace gradsync::tools {

// A part of a table as people see it, for the formats that they read. Keeps a reference to the table.
class Panel {
 public:
  const std::string& title() const { return title_; }  // empty: none
  size_t num_columns() const { return columns_.size(); }
  size_t num_rows() const { return table_->num_rows(); }
  const std::string& header(size_t column) const { return columns_[column].header; }
  bool is_text(size_t column) const { return columns_[column].is_text; }
  // Empty where there is no value.
  std::string cell(size_t row, size_t column) const;

 private:
  friend std::vector<Panel> PanelsOf(const Table& table);

  struct PanelColumn {
    std::string header;
    bool is_text = false;
    bool is_interval = false;
    size_t source = 0;  // column of the table
    Kind kind = Kind::kText;
    int decimals = 0;  // of a kDecimal column
    int digits = 0;    // of a number that is too small for these
  };

  const Table* table_ = nullptr;
  std::string title_;
  std::vector<PanelColumn> columns_;
};

// The panels of a table, leading columns first.
std::vector<Panel> PanelsOf(const Table& table);

// What is said once, above the table: "batch_size 2, seq_len 128". Empty if there is nothing.
std::string ConstantsOf(const Table& table);

// A number with `digits` significant digits; with an exponent only if it is very small.
std::string FormatSignificant(double value, int digits);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_PANEL_H_
