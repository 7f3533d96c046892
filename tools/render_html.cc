#include "tools/render_html.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "tools/panel.h"
#include "tools/report_text.h"

namespace gradsync::tools {
namespace {

// Whether a new group begins with a row.
std::vector<bool> GroupStarts(const Table& table, size_t num_rows) {
  std::vector<bool> starts(num_rows, false);
  const auto& columns = table.columns();
  const auto found = std::find_if(columns.begin(), columns.end(), [](const Column& column) {
    return column.name == "strategy" && column.kind == Kind::kText;
  });
  if (found == columns.end()) return starts;
  const auto column = static_cast<size_t>(found - columns.begin());
  std::set<std::string_view> seen;
  for (size_t row = 0; row < num_rows; ++row) {
    if (seen.insert(table.text(row, column)).second) continue;
    starts[row] = true;
    seen = {table.text(row, column)};
  }
  return starts;
}

// Long names may break behind their underscores, so that numbers decide how wide a column is.
std::string Header(std::string_view name) {
  std::string html;
  while (!name.empty()) {
    const size_t end = std::min(name.find('_'), name.size() - 1) + 1;
    html += EscapeXml(name.substr(0, end));
    name.remove_prefix(end);
    if (!name.empty()) html += "<wbr/>";
  }
  return html;
}

// A panel's columns, but the run last: what fits on a screen is what people came for.
std::vector<size_t> OrderOf(const Panel& panel) {
  std::vector<size_t> order(panel.num_columns());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t column) { return panel.header(column) != "run"; });
  return order;
}

void WriteHead(const Panel& panel, std::ostream& out) {
  out << "<thead><tr>";
  for (const size_t column : OrderOf(panel)) {
    out << "<th scope=\"col\"" << (panel.is_text(column) ? " class=\"t\"" : "") << ">"
        << Header(panel.header(column)) << "</th>";
  }
  out << "</tr></thead>\n";
}

void WriteRow(const Panel& panel, size_t row, bool starts_group, const HtmlTableOptions& options,
              std::ostream& out) {
  out << (starts_group ? "<tr class=\"group\">" : "<tr>");
  bool is_first = true;
  for (const size_t column : OrderOf(panel)) {
    const char* tag = is_first ? "th" : "td";
    out << "<" << tag << (is_first ? " scope=\"row\"" : "");
    is_first = false;
    const std::string text = panel.cell(row, column);
    if (panel.is_text(column)) {
      out << " class=\"t" << (panel.header(column) == "flags" ? " flags" : "") << "\">"
          << (options.cell ? options.cell(panel.header(column), text) : EscapeXml(text));
    } else {
      out << ">" << EscapeXml(text);
    }
    out << "</" << tag << ">";
  }
  out << "</tr>\n";
}

}  // namespace

void RenderHtmlTable(const Table& table, const HtmlTableOptions& options, std::ostream& out) {
  const std::string& id = options.id;
  out << "<section class=\"table\" id=\"" << id << "\">\n<h3 id=\"" << id << "-title\">" << options.heading
      << EscapeXml(table.title()) << "</h3>\n";
  const std::string constants = ConstantsOf(table);
  if (!constants.empty()) out << "<p class=\"constants\">All rows: " << EscapeXml(constants) << ".</p>\n";
  const size_t num_rows = std::min(table.num_rows(), options.max_rows);
  const std::vector<bool> starts = GroupStarts(table, num_rows);
  for (const std::string& finding : table.findings()) {
    out << "<p class=\"finding\"><strong>" << WithCode(finding) << "</strong></p>\n";
  }
  for (const Panel& panel : PanelsOf(table)) {
    if (!panel.title().empty()) out << "<p class=\"panel-title\">" << EscapeXml(panel.title()) << "</p>\n";
    out << "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"" << id
        << "-title\"><table>\n";
    WriteHead(panel, out);
    out << "<tbody>\n";
    for (size_t row = 0; row < num_rows; ++row) WriteRow(panel, row, starts[row], options, out);
    out << "</tbody></table></div>\n";
  }
  if (num_rows < table.num_rows()) {
    out << "<p class=\"constants\">The first " << num_rows << " of " << table.num_rows()
        << " rows; <code>summarize --format=csv</code> prints all.</p>\n";
  }
  std::string notes;
  for (const std::string& note : table.notes()) {
    if (!options.shows_note || options.shows_note(note)) notes += "<li>" + WithCode(note) + "</li>\n";
  }
  if (!notes.empty()) out << "<ul class=\"notes\">\n" << notes << "</ul>\n";
  out << "</section>\n";
}

}  // namespace gradsync::tools
