#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// up to six settings (a model, batch size, ..., over a backend) the text names the best strategy of each
// setting. Only strategies with exact gradients can be the best. The best strategy is the fastest of them, or
// one that is shown to be slower than the fastest by at most 3 % of the baseline's step (kEqualWithin). For
// more settings the text only has the number of settings in which each strategy is the best. If the best
// strategy of a setting is undecided, the text has, if possible, the command of a measurement that would
// probably show how two of its strategies compare. The text ends with a table of the strategies' differences
// to their baseline, and with a few lines about bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
