#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/rows.h"

namespace gradsync::tools {

// A name, such as "batch 2" or "at 1 Gbit/s", and a measurement that a table shows under this name.
using MeasuredPlace = std::pair<std::string, const Measurement*>;

// Returns a sentence about the machines on which a table's rows were measured, such as `Measured on AMD EPYC,
// 2 CPUs, Linux 6.1.0; its ranks reach 174 to 181 GFLOP/s.` In the example, the sum of all ranks' speeds was
// at least 174 and at most 181 GFLOP/s in each measurement. If the rows are from several machines, the
// sentence says for each machine which of the names in `places`, such as "batch 2", were measured on it. Rows
// with figures from publications, which were not measured here, are left out. Returns an empty text if no
// measurement's record describes a machine.
std::string MachinesText(const std::vector<MeasuredPlace>& places);
std::string MachinesText(const Settings& settings);

}  // namespace gradsync::tools
