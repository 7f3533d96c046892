#ifndef GRADSYNC_TOOLS_RUN_TOOL_H_
#define GRADSYNC_TOOLS_RUN_TOOL_H_

#include <exception>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "model/base/error.h"
#include "model/base/exit_status.h"
#include "model/base/flags.h"

namespace gradsync::tools {

// The main function of every tool. Prints the usage if help is requested, else calls `body` and returns its
// result. Returns kBadArguments for InvalidInput, and kFailed for any other exception or if `out` cannot be
// written (for example, on a full disk), with one line on `err`.
template <class Body>
int RunTool(std::string_view name, FlagTable* flags, int argc, const char* const* argv, std::ostream& out,
            std::ostream& err, const Body& body) {
  const auto fail = [&](int status, const std::exception& error) {
    err << name << ": " << error.what() << std::endl;
    return status;
  };
  try {
    flags->Parse(argc, argv);
    if (flags->help_requested()) out << flags->Usage();
    const int status = flags->help_requested() ? kDone : body();
    if (!out.flush()) throw std::runtime_error("cannot write to stdout");
    return status;
  } catch (const InvalidInput& error) {
    return fail(kBadArguments, error);
  } catch (const std::exception& error) {
    return fail(kFailed, error);
  }
}

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RUN_TOOL_H_
