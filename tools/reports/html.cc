#include "tools/reports/html.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tools/render/panel.h"
#include "tools/render/text.h"

namespace gradsync::tools {
namespace {

// Whether a new group begins with a row: strategies side by side, or the rows of one strategy.
std::vector<bool> GroupStarts(const Table& table, size_t num_rows) {
  std::vector<bool> starts(num_rows, false);
  const auto& columns = table.columns();
  const auto found = std::find_if(columns.begin(), columns.end(), [](const Column& column) {
    return column.name == "strategy" && column.kind == Kind::kText;
  });
  if (found == columns.end()) return starts;
  const auto column = static_cast<size_t>(found - columns.begin());
  const auto repeats = [&](size_t row) {
    return row > 0 && table.text(row, column) == table.text(row - 1, column);
  };
  bool is_group = false;
  for (size_t row = 0; row < num_rows; ++row) is_group = is_group || repeats(row);
  std::set<std::string_view> seen;
  for (size_t row = 0; row < num_rows; ++row) {
    if (is_group) {
      starts[row] = row > 0 && !repeats(row);
      continue;
    }
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

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// A panel as it is written.
class HtmlPanel {
 public:
  HtmlPanel(const Panel& panel, size_t num_rows, const HtmlTableOptions& options)
      : panel_(panel), num_rows_(num_rows), options_(options) {
    size_t flags = panel.num_columns();
    for (size_t column = 0; column < panel.num_columns(); ++column) {
      order_.push_back(column);
      if (panel.header(column) == "flags") flags = column;
    }
    // The run last: what fits on a screen is what people came for.
    std::stable_partition(order_.begin(), order_.end(),
                          [&](size_t column) { return panel.header(column) != "run"; });
    if (flags == panel.num_columns() || num_rows < 2) return;
    common_flags_ = WordsOf(panel.cell(0, flags));
    for (size_t row = 1; row < num_rows; ++row) {
      const std::vector<std::string> words = WordsOf(panel.cell(row, flags));
      std::erase_if(common_flags_,
                    [&](const std::string& word) { return std::ranges::count(words, word) == 0; });
    }
    bool has_more = common_flags_.empty();
    for (size_t row = 0; row < num_rows; ++row)
      has_more = has_more || !OwnFlags(panel.cell(row, flags)).empty();
    if (!has_more) std::erase(order_, flags);
  }

  void Write(const std::vector<bool>& starts_group, std::ostream& out) const {
    if (!panel_.title().empty()) out << "<p class=\"panel-title\">" << EscapeXml(panel_.title()) << "</p>\n";
    if (!common_flags_.empty()) {
      std::string text;
      for (const std::string& flag : common_flags_) text += (text.empty() ? "" : " ") + flag;
      out << "<p class=\"constants\">All rows carry " << Html("flags", text) << "</p>\n";
    }
    out << "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"" << options_.id
        << "-title\"><table>\n";
    WriteHead(out);
    out << "<tbody>\n";
    for (size_t row = 0; row < num_rows_; ++row) WriteRow(row, starts_group[row], out);
    out << "</tbody></table></div>\n";
  }

 private:
  std::string Html(const std::string& column, const std::string& text) const {
    return options_.cell ? options_.cell(column, text) : EscapeXml(text);
  }

  // Of a cell those that not all rows have.
  std::string OwnFlags(const std::string& cell) const {
    std::string own;
    for (const std::string& word : WordsOf(cell)) {
      if (std::ranges::count(common_flags_, word) == 0) own += (own.empty() ? "" : " ") + word;
    }
    return own;
  }

  void WriteHead(std::ostream& out) const {
    out << "<thead><tr>";
    for (const size_t column : order_) {
      out << "<th scope=\"col\"" << (panel_.is_text(column) ? " class=\"t\"" : "") << ">"
          << Header(panel_.header(column)) << "</th>";
    }
    out << "</tr></thead>\n";
  }

  void WriteRow(size_t row, bool starts_group, std::ostream& out) const {
    out << (starts_group ? "<tr class=\"group\">" : "<tr>");
    bool is_first = true;
    for (const size_t column : order_) {
      const char* tag = is_first ? "th" : "td";
      out << "<" << tag << (is_first ? " scope=\"row\"" : "");
      is_first = false;
      const std::string text = panel_.cell(row, column);
      if (panel_.header(column) == "flags") {
        out << " class=\"t flags\">" << Html("flags", OwnFlags(text));
      } else if (panel_.is_text(column)) {
        out << " class=\"t\">" << Html(panel_.header(column), text);
      } else {
        out << ">" << EscapeXml(text);
      }
      out << "</" << tag << ">";
    }
    out << "</tr>\n";
  }

  const Panel& panel_;
  const size_t num_rows_;
  const HtmlTableOptions& options_;
  std::vector<size_t> order_;  // of columns
  std::vector<std::string> common_flags_;
};

}  // namespace

void RenderHtmlTable(const Table& table, const HtmlTableOptions& options, std::ostream& out) {
  const std::string& id = options.id;
  out << "<section class=\"table\" id=\"" << id << "\">\n<h3 id=\"" << id << "-title\">" << options.heading
      << EscapeXml(table.title()) << "</h3>\n";
  const std::string constants = ConstantsOf(table);
  if (!constants.empty()) out << "<p class=\"constants\">All rows: " << EscapeXml(constants) << ".</p>\n";
  const size_t num_rows = std::min(table.num_rows(), options.max_rows);
  const std::vector<bool> starts = GroupStarts(table, num_rows);
  if (!table.findings().empty()) {
    out << "<ul class=\"findings\">\n";
    for (const std::string& finding : table.findings()) out << "<li>" << WithCode(finding) << "</li>\n";
    out << "</ul>\n";
  }
  for (const Panel& panel : PanelsOf(table)) HtmlPanel(panel, num_rows, options).Write(starts, out);
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
