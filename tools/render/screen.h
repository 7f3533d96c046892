#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns a plain text of about kScreenLines lines, which a benchmark prints at its end. It has the strategy
// to use for up to six settings (model, batch size, sequence length; for more settings, only counts), a
// command that would decide what is undecided, the differences of the strategies, and a few lines about
// bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
