#ifndef GRADSYNC_TOOLS_IMPORT_CLI_H_
#define GRADSYNC_TOOLS_IMPORT_CLI_H_

#include <ostream>

namespace gradsync::tools {

// Reads published tables into records: one .jsonl for each file, in --out. Returns the exit status: 0 done,
// a file could not be read or written, 2 bad arguments, or a file without figures.
int RunImportPublished(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_IMPORT_CLI_H_
