#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns a plain text of about kScreenLines lines, which a benchmark prints at its end. For up to six
// settings (a model, batch size, ..., over a backend) it names the best strategy of each. For more settings
// it only counts how often each strategy is best. Then come a command that would decide an undecided setting,
// the differences of the strategies, and a few lines about bandwidths, other runs, checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
