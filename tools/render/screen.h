#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the results as a plain text of about kScreenLines lines, which a benchmark prints at its end. For
// each setting (model, batch size, ..., over a backend), the text usually names the fastest of the strategies
// with exact gradients. If the first run has more than six settings, the text instead counts how often each
// strategy is the fastest. A later run is shown in full only if it has the first run's baseline and at most
// four settings are shown together. For a later run that is not shown in full, the text only counts how often
// each strategy is the fastest. The text usually contains a table of the strategies' differences to their
// baseline, and lines about checks and warnings.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
