#pragma once

#include <ostream>

namespace gradsync::tools {

// The program: reads the command line and the records, writes tables to `out` or a file, and everything that
// is wrong to `err`. Returns the exit status: 0 done, even if lines were left out; 1 no record could be used,
// or the tables not written; 2 bad arguments, in one line.
int RunSummarize(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools
