#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/grid.h"
#include "tools/analysis/answers.h"

// Makes the small table of strategies and their times in the text that a benchmark prints at its end
// (RenderScreen).
namespace gradsync::tools {

inline constexpr size_t kMostSettings = 5;  // choices that have a column each; more choices are lines

// For one choice (a model, batch size, ..., over a backend), returns a grid with a line for each compared row
// and one for the strategy without communication. The columns of this grid are the step time, the difference
// to the baseline, the time that synchronisation adds, and the megabytes sent. With 2 to kMostSettings
// choices, strategies are lines and choices are columns; with more, it is the other way round. In both grids
// of several choices, a strategy's cell has its difference to the baseline in per cent with `decimals`
// decimals, and the baseline's cell has its step time.
Grid MakeGrid(const std::vector<Choice>& choices, int decimals);

// Returns NamedSetting::name or, if that is empty, model and sizes: "tiny, batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// Returns a short name of a choice, such as "tiny b2 s64 over gloo". The name lacks the backend if the choice
// has rows over several backends, all compared with one baseline.
std::string NameOf(const Choice& choice);
// Returns "+29.2 [15.4, 42.9]", in per cent, for a difference of 0.292 with the interval {0.154, 0.429}.
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
