#include <functional>
#include <string_view>
#include <utility>

#include "tools/render/render.h"
#include "tools/render/section.h"

namespace gradsync::tools {
namespace {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '~':
        escaped += "\\textasciitilde{}";
        break;
      case '^':
        escaped += "\\textasciicircum{}";
        break;
      case '\\':
        escaped += "\\textbackslash{}";
        break;
      case '<':
        escaped += "\\textless{}";
        break;
      case '>':
        escaped += "\\textgreater{}";
        break;
      case '\n':
      case '\r':
        escaped += ' ';
        break;
      default:
        if (std::string_view("&%$#_{}").find(c) != std::string_view::npos) escaped += '\\';
        escaped += c;
    }
  }
  return escaped;
}

void WriteRow(const std::vector<std::string>& cells, const std::function<bool(size_t column)>& is_strong,
              std::ostream& out) {
  for (size_t i = 0; i < cells.size(); ++i) {
    out << (i > 0 ? " & " : "") << (is_strong(i) ? "\\textbf{" + Escaped(cells[i]) + "}" : Escaped(cells[i]));
  }
  out << " \\\\\n";
}

void WriteSection(const Section& section, std::ostream& out) {
  if (!section.title.empty()) out << Escaped(section.title) << "\n\n\\smallskip\n";
  out << "\\begin{tabular}{";
  for (const bool is_text : section.is_text) out << (is_text ? "l" : "r");
  out << "}\n\\toprule\n";
  WriteRow(
      section.headers, [](size_t) { return false; }, out);
  out << "\\midrule\n";
  for (size_t row = 0; row < section.rows.size(); ++row) {
    WriteRow(
        section.rows[row],
        [&](size_t column) {
          return section.strong.contains({row, column});
        },
        out);
  }
  out << "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace

void RenderLatex(const Report& report, std::ostream& out) {
  for (const std::string& line : report.header) out << "% " << line << "\n";
  for (const Table& table : report.tables) {
    if (table.audience() == Audience::kMachines) continue;
    out << "\n\\begin{table}\n\\centering\n\\caption{" << Escaped(table.title());
    const std::string constants = ConstantsOf(table);
    if (!constants.empty()) out << " (" << Escaped(constants) << ")";
    out << "}\n\\small\n";
    for (const std::string& finding : table.findings()) out << Escaped(finding) << "\n\n\\smallskip\n";
    const char* gap = "";
    for (const Section& section : SectionsOf(table)) {
      out << std::exchange(gap, "\n\\medskip\n");
      WriteSection(section, out);
    }
    for (const std::string& note : table.notes()) out << "\n\\smallskip\n" << Escaped(note) << "\n";
    out << "\\end{table}\n";
  }
}

}  // namespace gradsync::tools
