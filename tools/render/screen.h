#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text, shortened to about kScreenLines lines, which a benchmark prints at its
// end. If the first training run in `summary` has at most six settings (a model, batch size, ..., over a
// backend), the text names the best strategy of each setting. With more than six settings, the text only has
// the number of settings in which each strategy is the best. The best strategy has the shortest estimated
// step of those with exact gradients. It is named only if the measurement shows that no other one of them is
// faster by 3 % of the baseline's step (kEqualWithin) or more. If several strategies of a setting may be the
// best (State::kUndecided), the text has the command of a new measurement of two of these strategies, which
// would probably show the faster one. The text has no command of a new measurement if the records do not
// contain the benchmark's own command, or if the network link had a rate limit. The text ends with a table of
// the strategies' differences to their baseline, and with a few lines, for example about checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
