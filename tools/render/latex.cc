#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "model/base/error.h"
#include "tools/render/render.h"
#include "tools/render/section.h"

namespace gradsync::tools {
namespace {

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll({text.data(), text.size()}, {{"~", "\\textasciitilde{}"},
                                                          {"^", "\\textasciicircum{}"},
                                                          {"\\", "\\textbackslash{}"},
                                                          {"<", "\\textless{}"},
                                                          {">", "\\textgreater{}"},
                                                          {"\n", " "},
                                                          {"\r", " "},
                                                          {"&", "\\&"},
                                                          {"%", "\\%"},
                                                          {"$", "\\$"},
                                                          {"#", "\\#"},
                                                          {"_", "\\_"},
                                                          {"{", "\\{"},
                                                          {"}", "\\}"}});
}

void WriteRow(const std::vector<Shown>& cells, std::ostream& out) {
  const char* gap = "";
  for (const Shown& cell : cells) {
    const std::string text = Escaped(cell.text);
    out << std::exchange(gap, " & ") << (cell.is_strong ? "\\textbf{" + text + "}" : text);
  }
  out << " \\\\\n";
}

void WriteSection(const Section& section, std::ostream& out) {
  if (!section.title.empty()) out << Escaped(section.title) << "\n\n\\smallskip\n";
  out << "\\begin{tabular}{";
  for (const bool is_text : section.is_text) out << (is_text ? "l" : "r");
  out << "}\n\\toprule\n";
  std::vector<Shown> headers;
  for (const std::string& header : section.headers) headers.push_back({.text = header});
  WriteRow(headers, out);
  out << "\\midrule\n";
  for (const std::vector<Shown>& row : section.rows) WriteRow(row, out);
  out << "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace

void RenderLatex(const Report& report, std::ostream& out, bool with_details) {
  for (const auto& lines : {report.header, RunLines(report.runs)}) {
    for (const std::string& line : lines) out << "% " << line << "\n";
  }
  for (const Table& table : report.tables) {
    if (!IsShown(table, with_details)) continue;
    out << "\n\\begin{table}\n\\centering\n\\caption{" << Escaped(table.title());
    const std::string constants = ConstantsOf(table);
    if (!constants.empty()) out << " (" << Escaped(constants) << ")";
    out << "}\n\\small\n";
    for (const std::string& finding : table.findings()) out << Escaped(finding) << "\n\n\\smallskip\n";
    const char* gap = "";
    for (const Section& section : MakeSections(table, with_details)) {
      out << std::exchange(gap, "\n\\medskip\n");
      WriteSection(section, out);
    }
    for (const std::string& note : table.notes()) out << "\n\\smallskip\n" << Escaped(note) << "\n";
    out << "\\end{table}\n";
  }
  for (const Warning warning : WarningsIn(report.tables, with_details)) {
    out << "\n\\smallskip\\noindent\n"
        << Escaped(Join("`", WordOf(warning), "`: ", ExplanationOf(warning))) << "\n";
  }
}

}  // namespace gradsync::tools
