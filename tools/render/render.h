#pragma once

#include <ostream>

#include "tools/tables/parts/table.h"

namespace gradsync::tools {

// Prints a report in Markdown; tables are padded so that columns also align in the source. Without
// `with_details`, leaves out tables for which Table::is_detail() is true, and prints only the first section
// of the other tables.
void RenderMarkdown(const Report& report, std::ostream& out, bool with_details = true);

// Prints a report in LaTeX; its tables need \usepackage{booktabs}. The report's header and its runs become
// comments.
void RenderLatex(const Report& report, std::ostream& out, bool with_details = true);

// Prints {"tables":[{"name":...,"columns":[...],"rows":[[...],...]},...],...}; a missing number is null.
// Tables with findings also have "findings":[...]. Further members of the outermost object have what a page
// for users shows:
//  "shown":[{"name","title","constants","is_detail","findings":[...],"notes":[...],
//  "sections":[{"title","columns":[...],"rows":[[...],...]},...]},...]: cells as in Markdown;
//  "warnings":[{"name","meaning"},...]: the warnings that occur;
//  "runs":[{"experiment","run","time","ranks","command","machine","software"},...]
void RenderJson(const Report& report, std::ostream& out);

// Prints the column names and rows of the tables as CSV (RFC 4180), without findings and notes. If there are
// several tables, a line "# name" precedes each, and an empty line separates them.
void RenderCsv(const Report& report, std::ostream& out);

}  // namespace gradsync::tools
