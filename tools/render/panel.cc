#include "tools/render/panel.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "model/error.h"

namespace gradsync::tools {
namespace {

// Below this, leading zeros are harder to read than an exponent.
constexpr double kSmallest = 1e-5;

std::string Fixed(double value, int decimals) {
  char text[400];
  const auto result = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, decimals);
  std::string digits(text, result.ptr);
  // "-0.0" says something that is not there.
  if (digits.starts_with('-') && digits.find_first_of("123456789") == std::string::npos) digits.erase(0, 1);
  return digits;
}

std::string Scientific(double value, int digits) {
  if (value == 0) return "0";
  char text[64];
  const auto result =
      std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1);
  return std::string(text, result.ptr);
}

std::string Format(double value, Kind kind, int decimals, int digits) {
  if (std::isnan(value)) return "";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  switch (kind) {
    case Kind::kInteger:
      return Fixed(value, 0);
    case Kind::kPlain:
      return Join(value);
    case Kind::kFraction:
      return Fixed(value, 3);
    case Kind::kPercent: {
      const std::string text = Fixed(value, 1);
      return value > 0 && text != "0.0" ? "+" + text : text;
    }
    case Kind::kScientific:
      return Scientific(value, 2);
    default:
      // A number that the column's decimals would cut short has its own.
      return std::abs(value) < std::max(kSmallest, std::pow(10, digits - 1 - decimals))
                 ? FormatSignificant(value, digits)
                 : Fixed(value, decimals);
  }
}

// Numbers of a column that are smaller than this part of the largest do not decide about its decimals.
constexpr double kSmallPart = 1e-3;

// Decimals that show the column's digits of its smallest number, those aside that are far smaller than the
// others.
int DecimalsOf(const Table& table, size_t column) {
  double largest = 0;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double size = std::abs(table.number(row, column));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  if (largest == 0) return 0;
  double smallest = largest;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double size = std::abs(table.number(row, column));
    if (size >= kSmallPart * largest) smallest = std::min(smallest, size);
  }
  return std::clamp(table.columns()[column].digits - 1 - static_cast<int>(std::floor(std::log10(smallest))),
                    0, 12);
}

// The order in which people are shown the columns.
std::vector<size_t> OrderOf(const Table& table) {
  std::vector<size_t> order;
  for (const bool leads : {true, false}) {
    for (size_t i = 0; i < table.columns().size(); ++i) {
      if (table.columns()[i].leads == leads) order.push_back(i);
    }
  }
  return order;
}

bool IsSaidOnce(const Table& table, size_t column) {
  return table.columns()[column].said_once && table.is_constant(column);
}

}  // namespace

std::string FormatSignificant(double value, int digits) {
  if (value == 0) return "0";
  if (std::abs(value) < kSmallest) return Scientific(value, digits);
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value))));
  return Fixed(value, std::max(decimals, 0));
}

std::string Panel::cell(size_t row, size_t column) const {
  const PanelColumn& shown = columns_[column];
  if (shown.is_text) return std::string(table_->text(row, shown.source));
  const auto format = [&](size_t source) {
    return Format(table_->number(row, source), shown.kind, shown.decimals, shown.digits);
  };
  const std::string first = format(shown.source);
  if (first.empty()) return "";
  if (shown.is_interval) return Join("[", first, ", ", format(shown.source + 1), "]");
  return table_->marked(row, shown.source) ? first + "*" : first;
}

std::vector<Panel> PanelsOf(const Table& table) {
  const std::vector<size_t> order = OrderOf(table);
  std::set<int> numbers;
  for (const Column& column : table.columns()) {
    if (column.audience != Audience::kMachines && column.panel > 0) numbers.insert(column.panel);
  }
  if (numbers.empty()) numbers.insert(1);
  std::vector<Panel> panels;
  for (const int number : numbers) {
    Panel& panel = panels.emplace_back();
    panel.table_ = &table;
    panel.title_ = table.panel_title(number);
    for (const size_t i : order) {
      const Column& column = table.columns()[i];
      if (column.audience == Audience::kMachines || IsSaidOnce(table, i)) continue;
      if (column.panel != 0 && column.panel != number) continue;
      const bool is_interval = !column.interval_name.empty();
      const int decimals = column.kind == Kind::kDecimal ? DecimalsOf(table, i) : 0;
      panel.columns_.push_back({.header = is_interval ? column.interval_name : column.name,
                                .is_text = column.kind == Kind::kText,
                                .is_interval = is_interval,
                                .source = i,
                                .kind = column.kind,
                                .decimals = decimals,
                                .digits = column.digits});
    }
  }
  return panels;
}

std::string ConstantsOf(const Table& table) {
  std::string text;
  for (size_t i = 0; i < table.columns().size(); ++i) {
    const Column& column = table.columns()[i];
    if (column.audience == Audience::kMachines || !IsSaidOnce(table, i)) continue;
    const std::string value = table.is_text(i) ? std::string(table.text(0, i))
                                               : Format(table.number(0, i), column.kind, 0, column.digits);
    if (value.empty()) continue;
    text += Join(text.empty() ? "" : ", ", column.name, " ", value);
  }
  return text;
}

}  // namespace gradsync::tools
