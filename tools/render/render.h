#pragma once

#include <ostream>

#include "tools/tables/table.h"

namespace gradsync::tools {

// Padded so that columns align in the source too. Without details: of each table the findings and the first
// section, and no detail tables.
void RenderMarkdown(const Report& report, std::ostream& out, bool with_details = true);

// For \usepackage{booktabs}. The header and the runs become comments.
void RenderLatex(const Report& report, std::ostream& out, bool with_details = true);

// {"tables":[{"name":...,"columns":[...],"rows":[[...],...]},...], numbers as numbers, no value as null.
// Tables with findings have "findings":[...] too. Behind them is what people read:
//  "shown":[{"name","title","constants","is_detail","findings":[...],"notes":[...],
//            "sections":[{"title","columns":[...],"rows":[[...],...]},...]},...]: cells as in Markdown;
//  "warnings":[{"name","meaning"},...]: those that occur;
//  "runs":[{"experiment","run","time","ranks","command","machine","software"},...]}
void RenderJson(const Report& report, std::ostream& out);

// RFC 4180. If there are several tables, a line "# name" precedes each, and an empty line follows each but
// the last. Rows alone: findings and notes are in the other formats.
void RenderCsv(const Report& report, std::ostream& out);

}  // namespace gradsync::tools
