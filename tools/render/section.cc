#include "tools/render/section.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "model/base/error.h"
#include "model/base/text.h"

namespace gradsync::tools {
namespace {

std::string Format(double value, const Column& column, int decimals) {
  if (std::isnan(value)) return "";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  value *= column.times;
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
    case Kind::kPart:
      return Fixed(value, decimals);
    default:
      // A number for which the column has too few decimals has its own number of decimals.
      return std::abs(value) < std::max(kSmallestFixed, std::pow(10, column.digits - 1 - decimals))
                 ? Significant(value, column.digits)
                 : Fixed(value, decimals);
  }
}

// Returns the number of decimals that show Column::digits digits of the column's smallest number, ignoring
// numbers that are much smaller than the largest; for parts of a sum, of the column's largest number.
int DecimalsOf(const Table& table, size_t column) {
  constexpr double kFarSmaller = 1e-3;  // than the largest
  double largest = 0;
  for (size_t row = 0; row < table.num_rows(); ++row) {
    const double size = std::abs(table.number(row, column));
    if (std::isfinite(size)) largest = std::max(largest, size);
  }
  if (largest == 0) return 0;
  double smallest = largest;
  const Column& shown = table.columns()[column];
  for (size_t row = 0; row < table.num_rows() && shown.kind != Kind::kPart; ++row) {
    const double size = std::abs(table.number(row, column));
    if (size >= kFarSmaller * largest) smallest = std::min(smallest, size);
  }
  return std::clamp(shown.digits - 1 - static_cast<int>(std::floor(std::log10(shown.times * smallest))), 0,
                    12);
}

// Returns the warnings that all rows have in a column of warnings, if there are several rows. These warnings
// are printed once.
Warnings CommonWarnings(const Table& table, size_t column) {
  const Warnings* const first =
      table.num_rows() < 2 ? nullptr : std::get_if<Warnings>(&table.cell(0, column));
  Warnings common;
  for (const RowWarning& warning : first == nullptr ? Warnings() : *first) {
    bool is_common = !table.is_mark(warning.kind);
    for (size_t row = 0; row < table.num_rows(); ++row)
      is_common &= std::ranges::count(std::get<Warnings>(table.cell(row, column)), warning) > 0;
    if (is_common) common.push_back(warning);
  }
  return common;
}

// Returns the row's other warnings, without warnings that mark a number.
Warnings OwnWarnings(const Table& table, size_t row, size_t column, const Warnings& common) {
  Warnings own = std::get<Warnings>(table.cell(row, column));
  std::erase_if(own, [&](const RowWarning& warning) {
    return table.is_mark(warning.kind) || std::ranges::count(common, warning) > 0;
  });
  return own;
}

bool HasWarnings(const Table& table, size_t column) {
  return table.num_rows() > 0 && std::holds_alternative<Warnings>(table.cell(0, column));
}

bool IsSaidOnce(const Table& table, size_t column) {
  return table.columns()[column].said_once && table.is_constant(column);
}

bool IsColumnShown(const Table& table, size_t column) {
  if (table.columns()[column].audience == Audience::kMachines || IsSaidOnce(table, column)) return false;
  if (HasWarnings(table, column)) {
    const Warnings common = CommonWarnings(table, column);
    for (size_t row = 0; row < table.num_rows(); ++row) {
      if (!OwnWarnings(table, row, column, common).empty()) return true;
    }
    return false;
  }
  const bool is_empty =
      !table.is_text(column) && table.is_constant(column) && std::isnan(table.number(0, column));
  return !is_empty;
}

void AddColumn(const Table& table, size_t i, Section* section) {
  const Column& column = table.columns()[i];
  const bool is_scaled = column.kind == Kind::kDecimal || column.kind == Kind::kPart;
  const int decimals = is_scaled ? DecimalsOf(table, i) : 0;
  const auto has_ends = [&](size_t row) {
    return column.has_interval && !std::isnan(table.number(row, i + 1)) &&
           !std::isnan(table.number(row, i + 2));
  };
  const Warnings common = HasWarnings(table, i) ? CommonWarnings(table, i) : Warnings();
  bool is_interval = false;
  for (size_t row = 0; row < section->rows.size(); ++row) is_interval |= has_ends(row);
  section->headers.push_back(!column.header.empty() ? column.header
                             : is_interval          ? column.name + " [95 % CI]"
                                                    : column.name);
  section->is_text.push_back(table.is_text(i));
  for (size_t row = 0; row < section->rows.size(); ++row) {
    Shown& shown = section->rows[row].emplace_back();
    std::string& cell = shown.text;
    if (table.is_text(i)) {
      if (HasWarnings(table, i)) shown.warnings = OwnWarnings(table, row, i, common);
      cell = HasWarnings(table, i) ? TextOf(shown.warnings) : table.text(row, i);
      shown.is_strong = table.marked(row, i);
      continue;
    }
    cell = Format(table.number(row, i), column, decimals);
    if (cell.empty()) continue;
    if (has_ends(row)) {
      const auto end = [&](size_t at) { return Format(table.number(row, at), column, decimals); };
      // The number before them has the sign.
      cell += absl::StrReplaceAll(Join(" [", end(i + 1), ", ", end(i + 2), "]"), {{"+", ""}});
    }
    if (table.marked(row, i)) cell += "*";
  }
}

}  // namespace

bool IsShown(const Table& table, bool with_details) {
  return table.audience() != Audience::kMachines && (with_details || !table.is_detail());
}

std::vector<Section> MakeSections(const Table& table, bool with_details) {
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
    for (size_t i = 0; i < table.columns().size(); ++i) {
      const int own = table.columns()[i].section;
      if ((own == 0 || own == number) && IsColumnShown(table, i)) AddColumn(table, i, &section);
    }
  }
  return sections;
}

std::string ConstantsOf(const Table& table) {
  std::vector<std::string> parts;
  std::string warnings;
  for (size_t i = 0; i < table.columns().size(); ++i) {
    const Column& column = table.columns()[i];
    if (HasWarnings(table, i)) warnings = TextOf(CommonWarnings(table, i));
    if (column.audience == Audience::kMachines || !IsSaidOnce(table, i)) continue;
    const std::string value = table.is_text(i) ? table.text(0, i) : Format(table.number(0, i), column, 0);
    if (!value.empty()) parts.push_back(Join(column.name, " ", value));
  }
  if (!warnings.empty()) parts.push_back("warnings " + warnings);
  return absl::StrJoin(parts, ", ");
}

std::string MarkdownOf(const Shown& cell) { return cell.is_strong ? "**" + cell.text + "**" : cell.text; }

std::vector<std::string> RunLines(const std::vector<RunText>& runs) {
  constexpr size_t kMostDescribed = 6;
  if (runs.size() > kMostDescribed) return {Join("From ", runs.size(), " runs.")};
  std::vector<std::string> lines;
  std::string machine, software;
  for (const RunText& run : runs) {
    // Backquotes inside a command line would end its code span.
    const std::string command = absl::StrReplaceAll(run.command, {{"`", "'"}});
    lines.push_back(
        Join("- ", run.experiment, ": run ", run.run, ", ", run.time, ", ", run.ranks, ", `", command, "`"));
    if (run.machine.empty()) continue;
    if (std::exchange(machine, run.machine) != run.machine) lines.push_back("  - on " + machine);
    if (std::exchange(software, run.software) != run.software) lines.push_back("  - with " + software);
  }
  return lines;
}

}  // namespace gradsync::tools
