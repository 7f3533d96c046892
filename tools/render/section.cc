#include "tools/render/section.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "model/error.h"
#include "tools/render/text.h"

namespace gradsync::tools {
namespace {

std::string Format(double value, const Column& column, int decimals) {
  if (std::isnan(value)) return "";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  switch (column.kind) {
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
    default:
      // A number that the column's decimals would cut short has its own.
      return std::abs(value) < std::max(kSmallestFixed, std::pow(10, column.digits - 1 - decimals))
                 ? Significant(value, column.digits)
                 : Fixed(value, decimals);
  }
}

// Decimals that show the column's digits of its smallest number, those aside that are far smaller than the
// others.
int DecimalsOf(const Table& table, size_t column) {
  constexpr double kFarSmaller = 1e-3;  // than the largest
  double largest = 0;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double size = std::abs(table.number(row, column));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  if (largest == 0) return 0;
  double smallest = largest;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double size = std::abs(table.number(row, column));
    if (size >= kFarSmaller * largest) smallest = std::min(smallest, size);
  }
  return std::clamp(table.columns()[column].digits - 1 - static_cast<int>(std::floor(std::log10(smallest))),
                    0, 12);
}

bool IsSaidOnce(const Table& table, size_t column) {
  return table.columns()[column].said_once && table.is_constant(column);
}

bool IsColumnShown(const Table& table, size_t column) {
  if (table.columns()[column].audience == Audience::kMachines || IsSaidOnce(table, column)) return false;
  const bool is_empty =
      !table.is_text(column) && table.is_constant(column) && std::isnan(table.number(0, column));
  return !is_empty;
}

void AddColumn(const Table& table, size_t i, Section* section) {
  const Column& column = table.columns()[i];
  const int decimals = column.kind == Kind::kDecimal ? DecimalsOf(table, i) : 0;
  const auto has_ends = [&](size_t row) {
    return column.has_interval && !std::isnan(table.number(row, i + 1)) &&
           !std::isnan(table.number(row, i + 2));
  };
  bool is_interval = false;
  for (size_t row = 0; row < section->rows.size(); ++row) is_interval |= has_ends(row);
  section->headers.push_back(is_interval ? column.name + " [simultaneous 95 % CI]" : column.name);
  section->is_text.push_back(table.is_text(i));
  for (size_t row = 0; row < section->rows.size(); ++row) {
    Shown& shown = section->rows[row].emplace_back();
    std::string& cell = shown.text;
    if (table.is_text(i)) {
      cell = table.text(row, i);
      shown.is_strong = table.marked(row, i);
      if (const Flags* const flags = std::get_if<Flags>(&table.cell(row, i))) shown.flags = *flags;
      continue;
    }
    cell = Format(table.number(row, i), column, decimals);
    if (cell.empty()) continue;
    if (has_ends(row)) {
      cell += Join(" [", Format(table.number(row, i + 1), column, decimals), ", ",
                   Format(table.number(row, i + 2), column, decimals), "]");
    }
    if (table.marked(row, i)) cell += "*";
  }
}

}  // namespace

bool IsShown(const Table& table, bool with_details) {
  return table.audience() != Audience::kMachines && (with_details || !table.is_detail());
}

std::vector<Section> SectionsOf(const Table& table, bool with_details) {
  std::set<int> numbers;
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i].section > 0 && IsColumnShown(table, i)) numbers.insert(table.columns()[i].section);
  }
  if (numbers.empty()) numbers.insert(1);
  if (!with_details) numbers.erase(std::next(numbers.begin()), numbers.end());
  std::vector<Section> sections;
  for (const int number : numbers) {
    Section& section = sections.emplace_back();
    section.title = table.section_title(number);
    section.rows.resize(table.num_rows());
    for (const bool leads : {true, false}) {
      for (size_t i = 0; i < table.columns().size(); ++i) {
        const Column& column = table.columns()[i];
        const bool is_here = column.section == 0 || column.section == number;
        if (column.leads == leads && is_here && IsColumnShown(table, i)) AddColumn(table, i, &section);
      }
    }
  }
  return sections;
}

std::string ConstantsOf(const Table& table) {
  std::string text;
  for (size_t i = 0; i < table.columns().size(); ++i) {
    const Column& column = table.columns()[i];
    if (column.audience == Audience::kMachines || !IsSaidOnce(table, i)) continue;
    const std::string value =
        table.is_text(i) ? std::string(table.text(0, i)) : Format(table.number(0, i), column, 0);
    if (!value.empty()) text += Join(text.empty() ? "" : ", ", column.name, " ", value);
  }
  return text;
}

}  // namespace gradsync::tools
