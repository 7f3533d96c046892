#pragma once

#include <ostream>

namespace gradsync::tools {

// Runs the program: reads the command line and the records, writes tables to `out` or to a file, and writes
// problems to `err`. Returns the exit status: 0 if tables were written, even if lines were omitted; 1 if no
// record could be used, or if tables could not be written; 2 for bad arguments, with one line.
int RunSummarize(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools
