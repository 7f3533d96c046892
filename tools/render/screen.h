#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// each setting (model, batch size, ..., over a backend), the text usually names the fastest of the strategies
// with exact gradients. For more than six settings, and for runs that do not fit, the text only counts how
// often each strategy is the fastest. The text usually contains a table of the strategies' differences to
// their baseline, and lines about checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
