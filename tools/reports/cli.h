#ifndef GRADSYNC_TOOLS_REPORTS_CLI_H_
#define GRADSYNC_TOOLS_REPORTS_CLI_H_

#include <ostream>

namespace gradsync::tools {

// The program //tools:report. Writes nothing to `out` but the path of the report, or the usage. Returns the
// exit status: 0 done, 1 the report could not be written, 2 bad arguments, such as a directory with nothing
// to report; then there is one line on `err`.
int RunReport(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_CLI_H_
