#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns a plain text that fits on one screen, which a benchmark prints at its end: the strategy to use for
// each model, batch size and sequence length, a command that would decide what is undecided, the differences
// of the strategies, and a few lines about bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
