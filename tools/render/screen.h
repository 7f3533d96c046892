#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// up to six settings (a model, batch size, ..., over a backend) it names the best strategy of each: the
// fastest, or nearly, of those with exact gradients. For more settings it only counts in how many of them
// each strategy is the best. If the best strategy of some settings is undecided, the command of a measurement
// that would probably decide one of them follows. Then come a table with the differences of the strategies,
// and a few lines about bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
