#pragma once

#include <ostream>

#include "tools/tables/parts/table.h"

namespace gradsync::tools {

// Prints a report (tables of results, and a list of the runs) in Markdown; cells are padded so that columns
// also align in the source text. Leaves out tables with Audience::kMachines. If `with_details` is false, also
// leaves out tables for which Table::is_detail() is true, and prints only the first section (group of
// columns) of each other table.
void RenderMarkdown(const Report& report, std::ostream& out, bool with_details = true);

// Prints the tables of a report in LaTeX, without the tables and sections that RenderMarkdown leaves out. The
// tables need \usepackage{booktabs}. The report's header and the descriptions of its runs become comments of
// LaTeX.
void RenderLatex(const Report& report, std::ostream& out, bool with_details = true);

// Prints {"tables":[{"name":...,"columns":[...],"rows":[[...],...]},...],...}; a missing number is null. If
// the report has sentences about what a table shows (Table::findings), the table also has "findings":[...].
// Further members of the outermost object have what a page for users shows:
//  "shown":[{"name","title","constants","is_detail","findings":[...],"notes":[...],
//  "sections":[{"title","columns":[...],"rows":[[...],...]},...]},...]: cells as in Markdown;
//  "warnings":[{"name","meaning"},...]: the warnings that occur;
//  "runs":[{"experiment","run","time","ranks","command","machine","software"},...]
void RenderJson(const Report& report, std::ostream& out);

// Prints only the column names and rows of the report's tables, as CSV (RFC 4180). Leaves out tables and
// columns with Audience::kPeople. If several tables are printed, a line "# name" precedes each table, and an
// empty line separates the tables.
void RenderCsv(const Report& report, std::ostream& out);

}  // namespace gradsync::tools
