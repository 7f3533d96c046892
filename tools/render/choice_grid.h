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

// Returns a table with the step times of the strategies in `choices` and their differences to the baseline. A
// choice has the strategies that were measured in one setting (with the same model, batch size and other
// configuration) and compared with one baseline. With one choice (one setting and one baseline), the table
// has a line for each strategy of the choice, and a last line for the strategy without communication. With
// one choice, the columns of the table are the step time, the difference to the baseline in per cent, the
// time that synchronisation adds to a step, and the megabytes that a rank sends in a step. With 2 to
// kMostSettings choices, each strategy has a line and each choice a column; with more choices, each strategy
// has a column and each choice a line. With several choices, a strategy's cell has the difference of its step
// time to the baseline's in per cent, with `decimals` decimals, and the baseline's cell has its step time.
Grid MakeGrid(const std::vector<Choice>& choices, int decimals);

// Returns the name of a setting or, if it has none (NamedSetting::name is empty), its model and sizes: "tiny,
// batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// Returns a short name of a recommendation (Choice): its setting and its baseline's backend, such as "tiny b2
// s64 over gloo". If rows over several backends are compared with one baseline, the name has no backend.
std::string NameOf(const Choice& choice);
// Returns "+29.2 [15.4, 42.9]", in per cent, for a difference of 0.292 with the interval {0.154, 0.429}.
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
