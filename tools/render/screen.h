#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// up to six settings (a model, batch size, ..., over a backend) the text names the best strategy of each
// setting. The best strategy is the fastest, or nearly the fastest, of the strategies with exact gradients.
// For more settings the text only has the number of settings in which each strategy is the best. If the best
// strategy of some settings is undecided, the command of a measurement that would probably decide one of them
// follows. The text ends with a table of the differences of the strategies, and with a few lines about
// bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
