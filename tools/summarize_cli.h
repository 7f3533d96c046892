#pragma once

#include <ostream>

namespace gradsync::tools {

// The main function of //tools:summarize: reads the command line and the records, writes tables to `out` or
// to a file, and messages to `err`. Returns the exit status: 0 if it succeeded, even if some lines of records
// could not be used; 1 if no record could be used, or tables could not be written; 2 for bad arguments, or if
// the new records and those of --baseline have nothing to compare; 3 if the comparison with --baseline fails,
// for example because a row is slower, missing or wrong, or if an interval is wider than --precision allows.
int RunSummarize(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools
