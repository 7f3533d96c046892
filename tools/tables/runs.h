#pragma once

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// "/home/.../bin/bench/ddp --steps=3" -> "./bazelw run //bench:ddp -- --steps=3"; other programs' stay as
// they are.
std::string ReproducingCommand(const std::string& command_line);
// The same without these flags, given as "--name=value" or as "--name value".
std::string CommandWithout(const std::string& command_line, const std::vector<std::string>& flags);

// Where tables come from: of a record of each run.
std::vector<RunText> RunTexts(const std::vector<const bench::Record*>& runs);

}  // namespace gradsync::tools
