#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/grid.h"
#include "tools/analysis/answers.h"

// Makes the table of step times at the end of a benchmark's output.
namespace gradsync::tools {

inline constexpr size_t kMostSettings = 5;  // with more choices, each choice is a line of the table

// Returns a table of the strategies in `choices`. A Choice has the strategies that were measured in one
// setting (model, batch size, ...) and have one baseline. With one choice, the columns are the step time, the
// difference to the baseline in per cent, the time that synchronisation adds, and the megabytes that a rank
// sends in a step. With several choices, a baseline's cell has its step time. The cells of rows compared with
// the baseline have the difference in per cent, with `decimals` decimals. With one choice, `decimals` has no
// effect.
Grid MakeGrid(const std::vector<Choice>& choices, int decimals);

// Returns the name of a setting. If the name is empty, returns a description such as "tiny, batch 2, sequence
// 64".
std::string NameOf(const NamedSetting& at);
// Returns a name such as "tiny b2 s64 over gloo", from the setting and the backend of the baseline. Leaves
// out the backend if Comparison::spans_backends of the baseline is true.
std::string NameOf(const Choice& choice);
// Returns a difference and its interval in per cent: "+29.2 [15.4, 42.9]" for 0.292 with {0.154, 0.429}.
// Omits an unknown interval; empty if the difference is NaN.
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
