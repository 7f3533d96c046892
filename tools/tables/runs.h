#pragma once

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/tables/table.h"

namespace gradsync::tools {

// "/home/.../bin/bench/ddp --steps=3" -> "./bazelw run //bench:ddp -- --steps=3"; commands of other programs
// are unchanged.
std::string ReproducingCommand(const std::string& command_line);

// Returns a description of each run, from one record of the run.
std::vector<RunText> DescribeRuns(const std::vector<const bench::Record*>& runs);

}  // namespace gradsync::tools
