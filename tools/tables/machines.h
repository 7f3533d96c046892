#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/rows.h"

namespace gradsync::tools {

// A place of a table, such as "batch 2" or "at 1 Gbit/s", and what was measured there.
using MeasuredPlace = std::pair<std::string, const Measurement*>;

// Returns one sentence about the machines on which a table's rows were measured: the CPU or GPU, the kernel,
// and the peak floating-point operations per second (the sum over ranks), where records have it:
// "Measured on AMD EPYC, 2 CPUs, Linux 6.1.0; its ranks reach 174 to 181 GFLOP/s." If places were measured on
// several machines, the sentence names the places of each one. Published figures, whose machine no record
// describes, are left out; empty if nothing is left.
std::string MachinesText(const std::vector<MeasuredPlace>& places);
// Does this for all rows of the settings, with the names of the settings as places.
std::string MachinesText(const Settings& settings);

}  // namespace gradsync::tools
