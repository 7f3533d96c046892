#ifndef GRADSYNC_TOOLS_TABLES_RUNS_H_
#define GRADSYNC_TOOLS_TABLES_RUNS_H_

#include <string>
#include <vector>

#include "bench/records/record.h"

namespace gradsync::tools {

// "host bench1, 8 x Some CPU, 16 GiB, Debian GNU/Linux 12 (bookworm), Linux 6.1.0".
std::string MachineOf(const bench::Provenance& provenance);
// "gradsync 0123456789ab (opt, gcc 12.2.0), gloo 0.5.0".
std::string SoftwareOf(const bench::Provenance& provenance);

// "2 ranks, each with compute threads: 1, communication threads: 2".
std::string RanksOf(const bench::Record& record);
// "/home/.../bin/bench/ddp --steps=3" -> "./bazelw run //bench:ddp -- --steps=3"; other programs' stay as
// they are.
std::string ReproducingCommand(const std::string& command_line);
// The same without these flags, given as "--name=value" or as "--name value".
std::string CommandWithout(const std::string& command_line, const std::vector<std::string>& flags);

// Markdown lines, for people, about where tables come from: from a record of each run. More than a few runs
// are only counted.
std::vector<std::string> RunLines(const std::vector<const bench::Record*>& runs);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_RUNS_H_
