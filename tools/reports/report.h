#ifndef GRADSYNC_TOOLS_REPORTS_REPORT_H_
#define GRADSYNC_TOOLS_REPORTS_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tools/tables/table.h"

namespace gradsync::tools {

// A timeline for the report.
struct TimelinePicture {
  std::string title;
  std::string svg;  // put into the page as it is
};

struct ReportContents {
  std::string title;
  std::vector<Table> tables;  // as Summarize makes them; "runs" says where they come from
  std::vector<TimelinePicture> timelines;
  std::vector<Table> timeline_runs;  // tables "runs" of what the timelines show
  int64_t num_records = 0;
  int64_t num_problems = 0;  // lines and files that were left out
};

// Writes one HTML page that needs nothing beside itself: no script, no font, no picture, no connection. It is
// well-formed XML. In this order: title, what the tables find, figures, tables, machines,
// commands to reproduce, the validity flags that occur. What there is nothing for is left out.
void WriteReport(const ReportContents& contents, std::ostream& out);

// "/home/.../bin/bench/ddp --steps=3" -> "./bazelw run //bench:ddp -- --steps=3"; what is no program of
// Bazel's stays as it is.
std::string ReproducingCommand(const std::string& command_line);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_REPORT_H_
