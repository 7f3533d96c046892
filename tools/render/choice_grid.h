#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/grid.h"
#include "tools/analysis/answers.h"

// Makes the small table of strategies and their times in the text that a benchmark prints at its end
// (RenderScreen).
namespace gradsync::tools {

inline constexpr size_t kMostSettings = 5;  // that have a column each; if there are more, each is a line

// For one choice (a model, batch size, ..., over a backend), returns a grid with a line for each strategy.
// Its columns are the step time, the difference to the baseline, the time that synchronisation adds, and the
// megabytes sent. With 2 to kMostSettings choices, strategies are lines and choices are columns; with more,
// it is the other way round. A cell then has the difference to the baseline in per cent, or the baseline's
// step time.
Grid MakeGrid(const std::vector<Choice>& choices, int decimals);

// Returns the name of a setting: "tiny, batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// Returns a short name, such as "tiny b2 s64 over gloo". It lacks the backend if rows over several backends
// are compared with one baseline.
std::string NameOf(const Choice& choice);
// Returns "+29.2 [15.4, 42.9]", in per cent, for a difference of 0.292 and its interval.
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
