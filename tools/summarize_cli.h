#pragma once

#include <ostream>

namespace gradsync::tools {

// The main function of //tools:summarize: reads the command line and the records, writes tables to `out` or
// to a file, and messages to `err`. Returns the exit status:
//  0  success, even if some lines of records could not be used; also for --help
//  1  no record could be used (without --baseline), or an output could not be written
//  2  bad arguments, or the new records and those of --baseline have nothing to compare
//  3  with --baseline, a row with several launches on both sides is slower, or a row is missing or wrong;
//     with --precision, an interval is wider than allowed or unknown
int RunSummarize(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools
