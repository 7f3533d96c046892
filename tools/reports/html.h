#ifndef GRADSYNC_TOOLS_REPORTS_HTML_H_
#define GRADSYNC_TOOLS_REPORTS_HTML_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "tools/tables/table.h"

namespace gradsync::tools {

struct HtmlTableOptions {
  std::string id{};        // of the section; not escaped
  std::string heading{};   // HTML, before the table's title
  size_t max_rows = 2000;  // more are counted, not shown
  // Lines under the table; empty: all of its notes.
  std::function<bool(const std::string& note)> shows_note{};
  // HTML for a text of a column, in place of the text escaped.
  std::function<std::string(std::string_view column, std::string_view text)> cell{};
};

// A table as people see it, as a <section> of a page: title, what is the same in all rows, panels, notes. Is
// well-formed XML. Each panel scrolls inside itself where it is too wide. Rows of a column "strategy" are
// grouped: a new group begins with a strategy that the group has already. Of a column "flags", of whose words
// each is a flag, those of all rows are said once, above the panel.
void RenderHtmlTable(const Table& table, const HtmlTableOptions& options, std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_HTML_H_
