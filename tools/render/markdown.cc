#include <algorithm>
#include <set>

#include "absl/strings/str_replace.h"
#include "model/base/text.h"
#include "tools/render/render.h"
#include "tools/render/section.h"

namespace gradsync::tools {
namespace {

// Escapes "|", which would end a cell, and line breaks, which would end the table.
std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"\r", " "}});
}

// Cells are padded by characters, and not by bytes, because users see characters.
void WriteRow(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
              const std::vector<bool>& is_text, std::ostream& out) {
  out << '|';
  for (size_t column = 0; column < cells.size(); ++column) {
    const std::string padding(widths[column] - NumCharacters(cells[column]), ' ');
    out << ' ' << (is_text[column] ? cells[column] + padding : padding + cells[column]) << " |";
  }
  out << "\n";
}

void WriteSection(const Section& section, std::ostream& out) {
  std::vector<size_t> widths(section.headers.size(), 3);
  std::vector<std::vector<std::string>> lines = {section.headers};
  for (const std::vector<Shown>& row : section.rows) {
    std::vector<std::string>& cells = lines.emplace_back();
    for (const Shown& cell : row) cells.push_back(MarkdownOf(cell));
  }
  for (std::vector<std::string>& cells : lines) {
    for (size_t column = 0; column < cells.size(); ++column) {
      cells[column] = Escaped(cells[column]);
      widths[column] = std::max(widths[column], NumCharacters(cells[column]));
    }
  }
  if (!section.title.empty()) out << section.title << ":\n\n";
  WriteRow(lines.front(), widths, section.is_text, out);
  out << "|";
  for (size_t column = 0; column < widths.size(); ++column) {
    const std::string dashes(widths[column] + 1, '-');
    out << (section.is_text[column] ? ":" + dashes : dashes + ":") << "|";
  }
  out << "\n";
  for (size_t row = 1; row < lines.size(); ++row) WriteRow(lines[row], widths, section.is_text, out);
}

}  // namespace

void RenderMarkdown(const Report& report, std::ostream& out, bool with_details) {
  for (const std::string& line : report.header) out << line << "\n";
  for (const Table& table : report.tables) {
    if (!IsShown(table, with_details)) continue;
    out << "\n## " << table.title() << "\n";
    const std::string constants = ConstantsOf(table);
    if (!constants.empty()) out << "\nAll rows: " << constants << ".\n";
    for (const std::string& finding : table.findings()) out << "\n**" << finding << "**\n";
    for (const Section& section : MakeSections(table, with_details)) {
      out << "\n";
      WriteSection(section, out);
    }
    if (!table.notes().empty()) out << "\n";
    for (const std::string& note : table.notes()) out << "- " << note << "\n";
  }
  const std::set<Warning> warnings = WarningsIn(report.tables, with_details);
  if (!with_details)
    out << "\n`--details` shows all columns and tables, `--format=csv` or `json` every number.\n";
  if (!warnings.empty()) out << "\n## Warnings\n\n";
  for (const Warning warning : warnings)
    out << "- `" << WordOf(warning) << "`: " << ExplanationOf(warning) << "\n";
  if (!report.runs.empty()) out << "\n## Runs\n\n";
  for (const std::string& line : RunLines(report.runs)) out << line << "\n";
}

}  // namespace gradsync::tools
