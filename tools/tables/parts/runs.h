#pragma once

#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/tables/parts/table.h"

namespace gradsync::tools {

// Returns the command with which users repeat a run: for "/home/.../bin/bench/ddp --steps=3" it is "./bazelw
// run //bench:ddp -- --steps=3". The commands of programs that are not directly in a directory bench/ are
// returned unchanged.
std::string ReproducingCommand(const std::string& command_line);

// Returns texts about each run, such as its command, time and machine; `runs` has one record of each run.
std::vector<RunText> DescribeRuns(const std::vector<const bench::Record*>& runs);

}  // namespace gradsync::tools
