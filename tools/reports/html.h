#ifndef GRADSYNC_TOOLS_REPORTS_HTML_H_
#define GRADSYNC_TOOLS_REPORTS_HTML_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

#include "tools/render/section.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

struct HtmlTableOptions {
  std::string id{};        // of the page's section; not escaped
  std::string heading{};   // HTML, before the table's title
  size_t max_rows = 2000;  // more are counted, not shown
  // HTML for a cell of a column, in place of its text escaped.
  std::function<std::string(const std::string& column, const Shown& cell)> cell{};
};

// A table as people see it, as a <section> of a page: title, what is the same in all rows, findings, the
// table's sections, notes. Is well-formed XML. Each section scrolls
// inside itself where it is too wide. Rows of a column "strategy" are grouped: a new group begins with a
// strategy that the group has already. Flags that all rows carry are said once, above the section.
void RenderHtmlTable(const Table& table, const HtmlTableOptions& options, std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_HTML_H_
