#ifndef GRADSYNC_TOOLS_REPORTS_REPORT_H_
#define GRADSYNC_TOOLS_REPORTS_REPORT_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "tools/reports/figures.h"
#include "tools/tables/summarize.h"

namespace gradsync::tools {

struct ReportContents {
  Summary summary{};                // of the records
  std::vector<Figure> timelines{};  // ids begin with "timeline-", and go on with the run's
  Summary traced{};          // of the records of what the timelines show, where they are not in `summary`
  int64_t num_problems = 0;  // lines and files that were left out
};

// Writes one HTML page that needs nothing beside itself: no script, no font, no picture, no connection. It is
// well-formed XML. In this order: title, models and machines, what the tables find, what a step is made of,
// other figures, tables, runs with their commands, the validity flags that occur. Anything without data is
// left out.
void WriteReport(const ReportContents& contents, std::ostream& out);

// The program //tools:report. Writes nothing to `out` but the path of the report, or the usage. Returns the
// exit status: 0 done, 1 the report could not be written, 2 bad arguments, such as a directory with nothing
// to report; then there is one line on `err`.
int RunReport(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_REPORT_H_
