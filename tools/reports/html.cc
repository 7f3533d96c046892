#include "tools/reports/html.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "tools/render/text.h"

namespace gradsync::tools {
namespace {

// The number of columns if there is none of that name.
size_t ColumnNamed(const Section& section, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(section.headers, name) - section.headers.begin());
}

// Changes the columns of the section: `change` is called with its headers, their kinds, and each row.
template <class Change>
void ChangeColumns(Section* section, const Change& change) {
  change(section->headers);
  change(section->is_text);
  for (std::vector<Shown>& row : section->rows) change(row);
}

// What fits on a screen is what people came for, and not the run.
void MoveRunToTheEnd(Section* section) {
  const size_t run = ColumnNamed(*section, "run");
  if (run == section->headers.size()) return;
  ChangeColumns(section, [run](auto& cells) {
    const auto cell = cells.begin() + static_cast<std::ptrdiff_t>(run);
    std::rotate(cell, cell + 1, cells.end());
  });
}

// Takes the flags that all rows carry out of these, and the column if nothing is left in it. Returns them.
Flags TakeCommonFlags(Section* section) {
  const size_t column = ColumnNamed(*section, "flags");
  if (column == section->headers.size() || section->rows.size() < 2) return {};
  Flags common = section->rows[0][column].flags;
  for (const std::vector<Shown>& row : section->rows) {
    const Flags& flags = row[column].flags;
    std::erase_if(common, [&](const FlagOfRow& flag) { return std::ranges::count(flags, flag) == 0; });
  }
  if (common.empty()) return {};
  bool has_more = false;
  for (std::vector<Shown>& row : section->rows) {
    Flags& flags = row[column].flags;
    std::erase_if(flags, [&](const FlagOfRow& flag) { return std::ranges::count(common, flag) > 0; });
    row[column].text = TextOf(flags);
    has_more = has_more || !flags.empty();
  }
  if (!has_more) {
    ChangeColumns(section,
                  [&](auto& cells) { cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(column)); });
  }
  return common;
}

// Whether a new group begins with a row: strategies side by side, or the rows of one strategy.
std::vector<bool> GroupStarts(const Section& section) {
  std::vector<bool> starts(section.rows.size(), false);
  const size_t column = ColumnNamed(section, "strategy");
  if (column == section.headers.size()) return starts;
  const auto strategy = [&](size_t row) -> std::string_view { return section.rows[row][column].text; };
  bool has_neighbours = false;
  for (size_t row = 1; row < starts.size(); ++row) {
    starts[row] = strategy(row) != strategy(row - 1);
    has_neighbours = has_neighbours || !starts[row];
  }
  if (has_neighbours) return starts;
  std::set<std::string_view> seen;
  for (size_t row = 0; row < starts.size(); ++row) {
    starts[row] = !seen.insert(strategy(row)).second;
    if (starts[row]) seen = {strategy(row)};
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

void WriteSection(Section section, const HtmlTableOptions& options, std::ostream& out) {
  const auto html = [&](const std::string& column, const Shown& cell) {
    const std::string text = options.cell ? options.cell(column, cell) : EscapeXml(cell.text);
    return cell.is_strong ? "<strong>" + text + "</strong>" : text;
  };
  MoveRunToTheEnd(&section);
  const Flags common = TakeCommonFlags(&section);
  const std::vector<bool> starts = GroupStarts(section);
  if (!section.title.empty()) out << "<p class=\"panel-title\">" << EscapeXml(section.title) << "</p>\n";
  if (!common.empty())
    out << "<p class=\"constants\">All rows carry "
        << html("flags", {.text = TextOf(common), .is_strong = false, .flags = common}) << "</p>\n";
  out << "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"" << options.id
      << "-title\"><table>\n<thead><tr>";
  for (size_t column = 0; column < section.headers.size(); ++column) {
    out << "<th scope=\"col\"" << (section.is_text[column] ? " class=\"t\"" : "") << ">"
        << Header(section.headers[column]) << "</th>";
  }
  out << "</tr></thead>\n<tbody>\n";
  for (size_t row = 0; row < section.rows.size(); ++row) {
    out << (starts[row] ? "<tr class=\"group\">" : "<tr>");
    for (size_t column = 0; column < section.headers.size(); ++column) {
      const std::string& header = section.headers[column];
      out << (column == 0 ? "<th scope=\"row\"" : "<td")
          << (header == "flags"         ? " class=\"t flags\">"
              : section.is_text[column] ? " class=\"t\">"
                                        : ">")
          << html(header, section.rows[row][column]) << (column == 0 ? "</th>" : "</td>");
    }
    out << "</tr>\n";
  }
  out << "</tbody></table></div>\n";
}

void WriteList(const char* css_class, const std::vector<std::string>& items, std::ostream& out) {
  if (items.empty()) return;
  out << "<ul class=\"" << css_class << "\">\n";
  for (const std::string& item : items) out << "<li>" << WithCode(item) << "</li>\n";
  out << "</ul>\n";
}

}  // namespace

void RenderHtmlTable(const Table& table, const HtmlTableOptions& options, std::ostream& out) {
  out << "<section class=\"table\" id=\"" << options.id << "\">\n<h3 id=\"" << options.id << "-title\">"
      << options.heading << EscapeXml(table.title()) << "</h3>\n";
  const std::string constants = ConstantsOf(table);
  if (!constants.empty()) out << "<p class=\"constants\">All rows: " << EscapeXml(constants) << ".</p>\n";
  WriteList("findings", table.findings(), out);
  for (Section& section : SectionsOf(table, true, options.max_rows)) WriteSection(std::move(section), options, out);
  if (options.max_rows < table.num_rows()) {
    out << "<p class=\"constants\">The first " << options.max_rows << " of " << table.num_rows()
        << " rows; <code>summarize --format=csv</code> prints all.</p>\n";
  }
  WriteList("notes", table.notes(), out);
  out << "</section>\n";
}

}  // namespace gradsync::tools
