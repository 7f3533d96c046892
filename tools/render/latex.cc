#include <string_view>

#include "tools/render/panel.h"
#include "tools/render/render.h"

namespace gradsync::tools {
namespace {

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        escaped += '\\';
        escaped += c;
        break;
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
        escaped += c;
    }
  }
  return escaped;
}

void WriteRow(const std::vector<std::string>& cells, std::ostream& out) {
  for (size_t i = 0; i < cells.size(); ++i) out << (i > 0 ? " & " : "") << Escaped(cells[i]);
  out << " \\\\\n";
}

void WritePanel(const Panel& panel, std::ostream& out) {
  out << "\\begin{tabular}{";
  std::vector<std::string> cells(panel.num_columns());
  for (size_t column = 0; column < panel.num_columns(); ++column) {
    out << (panel.is_text(column) ? "l" : "r");
    cells[column] = panel.header(column);
  }
  out << "}\n\\toprule\n";
  WriteRow(cells, out);
  out << "\\midrule\n";
  for (size_t row = 0; row < panel.num_rows(); ++row) {
    for (size_t column = 0; column < panel.num_columns(); ++column) cells[column] = panel.cell(row, column);
    WriteRow(cells, out);
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
    bool is_first = true;
    for (const Panel& panel : PanelsOf(table)) {
      if (!is_first) out << "\n\\medskip\n";
      is_first = false;
      if (!panel.title().empty()) out << Escaped(panel.title()) << "\n\n\\smallskip\n";
      WritePanel(panel, out);
    }
    for (const std::string& note : table.notes()) out << "\n\\smallskip\n" << Escaped(note) << "\n";
    out << "\\end{table}\n";
  }
}

}  // namespace gradsync::tools
