#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/analysis/rows.h"

namespace gradsync::tools {

// A measurement, and the name under which a table shows it, such as "batch 2" or "at 1 Gbit/s".
using MeasuredPlace = std::pair<std::string, const Measurement*>;

// Returns a sentence about the computers of the measurements: `Measured on AMD EPYC, 2 CPUs, Linux 6.1.0; its
// ranks reach 174 to 181 GFLOP/s.` All ranks together reached 174 GFLOP/s in the slowest of these
// measurements, and 181 GFLOP/s in the fastest. With several computers, the sentence lists the names in
// `places` that were measured on each computer. Measurements from publications are left out. Returns an empty
// text if the computers are unknown.
std::string MachinesText(const std::vector<MeasuredPlace>& places);
std::string MachinesText(const Settings& settings);

}  // namespace gradsync::tools
