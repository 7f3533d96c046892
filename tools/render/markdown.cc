#include <algorithm>
#include <string_view>

#include "tools/render/panel.h"
#include "tools/render/render.h"
#include "tools/render/write_rows.h"

namespace gradsync::tools {
namespace {

// A "|" ends a cell, and a line break the table.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' || c == '\r' ? ' ' : c;
  }
  return escaped;
}

// Characters, not bytes: what is padded is what people see.
size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

void AppendCell(const std::string& cell, size_t width, bool is_text, std::string* text) {
  const size_t padding = width - std::min(width, WidthOf(cell));
  *text += ' ';
  if (!is_text) text->append(padding, ' ');
  *text += cell;
  if (is_text) text->append(padding, ' ');
  *text += " |";
}

void WritePanel(const Panel& panel, std::ostream& out) {
  std::vector<size_t> widths(panel.num_columns());
  for (size_t column = 0; column < panel.num_columns(); ++column) {
    widths[column] = std::max(size_t{3}, WidthOf(Escaped(panel.header(column))));
    for (size_t row = 0; row < panel.num_rows(); ++row) {
      widths[column] = std::max(widths[column], WidthOf(Escaped(panel.cell(row, column))));
    }
  }
  std::string headers = "|";
  for (size_t column = 0; column < panel.num_columns(); ++column) {
    AppendCell(Escaped(panel.header(column)), widths[column], panel.is_text(column), &headers);
  }
  out << headers << "\n|";
  for (size_t column = 0; column < panel.num_columns(); ++column) {
    const std::string dashes(widths[column] + 1, '-');
    out << (panel.is_text(column) ? ":" + dashes : dashes + ":") << "|";
  }
  out << "\n";
  const auto append = [&](size_t first, size_t last, std::string* text) {
    for (size_t row = first; row < last; ++row) {
      *text += '|';
      for (size_t column = 0; column < panel.num_columns(); ++column) {
        AppendCell(Escaped(panel.cell(row, column)), widths[column], panel.is_text(column), text);
      }
      *text += '\n';
    }
  };
  WriteRows(panel.num_rows(), append, out);
}

}  // namespace

void RenderMarkdown(const Report& report, std::ostream& out) {
  for (const std::string& line : report.header) out << line << "\n";
  for (const Table& table : report.tables) {
    if (table.audience() == Audience::kMachines) continue;
    out << "\n## " << table.title() << "\n";
    const std::string constants = ConstantsOf(table);
    if (!constants.empty()) out << "\nAll rows: " << constants << ".\n";
    for (const std::string& finding : table.findings()) out << "\n**" << finding << "**\n";
    for (const Panel& panel : PanelsOf(table)) {
      out << "\n";
      if (!panel.title().empty()) out << panel.title() << ":\n\n";
      WritePanel(panel, out);
    }
    if (!table.notes().empty()) out << "\n";
    for (const std::string& note : table.notes()) out << "- " << note << "\n";
  }
}

}  // namespace gradsync::tools
