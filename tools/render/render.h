#pragma once

#include <ostream>

#include "tools/tables/table.h"

namespace gradsync::tools {

// Prints tables in Markdown, padded so that columns also align in the source. Without details, prints the
// findings and the first section of each table, and no detail tables.
void RenderMarkdown(const Report& report, std::ostream& out, bool with_details = true);

// Prints tables in LaTeX for \usepackage{booktabs}. The header and the runs become comments.
void RenderLatex(const Report& report, std::ostream& out, bool with_details = true);

// {"tables":[{"name":...,"columns":[...],"rows":[[...],...]},...], numbers as numbers, no value as null.
// Tables with findings have "findings":[...] too. The following members are for users:
//  "shown":[{"name","title","constants","is_detail","findings":[...],"notes":[...],
//  "sections":[{"title","columns":[...],"rows":[[...],...]},...]},...]: cells as in Markdown;
//  "warnings":[{"name","meaning"},...]: the warnings that occur;
//  "runs":[{"experiment","run","time","ranks","command","machine","software"},...]}
void RenderJson(const Report& report, std::ostream& out);

// RFC 4180. If there are several tables, a line "# name" precedes each table, and an empty line follows each
// table except the last. CSV has only rows; the other formats have findings and notes.
void RenderCsv(const Report& report, std::ostream& out);

}  // namespace gradsync::tools
