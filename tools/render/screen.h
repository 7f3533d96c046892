#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// each setting (model, batch size, ..., over a backend), the text usually names the strategy with the
// shortest step. Only strategies with exact gradients are considered. With more than six settings, the text
// counts for each strategy the settings in which the strategy is the best. The text ends with a table of the
// strategies' differences to their baseline, and with lines about checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
