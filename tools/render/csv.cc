#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "tools/render/render.h"

namespace gradsync::tools {
namespace {

std::string Quoted(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  return "\"" + absl::StrReplaceAll({text.data(), text.size()}, {{"\"", "\"\""}}) + "\"";
}

// Returns the shortest text that is read as this number; empty for NaN.
std::string NumberText(double number) {
  if (std::isnan(number)) return "";
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

void RenderTable(const Table& table, std::ostream& out) {
  std::vector<size_t> shown;
  for (size_t i = 0; i < table.columns().size(); ++i) {
    if (table.columns()[i].audience == Audience::kPeople) continue;
    out << (shown.empty() ? "" : ",") << Quoted(table.columns()[i].name);
    shown.push_back(i);
  }
  out << "\r\n";
  for (size_t row = 0; row < table.num_rows(); ++row) {
    for (const size_t i : shown) {
      if (i != shown.front()) out << ",";
      out << (table.is_text(i) ? Quoted(table.text(row, i)) : NumberText(table.number(row, i)));
    }
    out << "\r\n";
  }
}

}  // namespace

void RenderCsv(const Report& report, std::ostream& out) {
  bool is_first = true;
  const auto is_shown = [](const Table& table) { return table.audience() != Audience::kPeople; };
  const bool are_many = std::ranges::count_if(report.tables, is_shown) > 1;
  for (const Table& table : report.tables) {
    if (!is_shown(table)) continue;
    if (!is_first) out << "\r\n";
    is_first = false;
    if (are_many) out << "# " << table.name() << "\r\n";
    RenderTable(table, out);
  }
}

}  // namespace gradsync::tools
