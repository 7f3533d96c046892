#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/grid.h"
#include "tools/analysis/answers.h"

// Makes the grid of choices on the screen.
namespace gradsync::tools {

inline constexpr size_t kMostSettings = 5;  // with more settings, each setting is a line and not a column

// Returns the grid. With one setting, each number of a row has a column; with several settings, each setting
// has a column; with more than kMostSettings, each setting has a line.
Grid MakeGrid(const std::vector<Choice>& choices, int decimals);

// Returns the name of a setting, also if there is only one setting: "tiny, batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// Returns a name such as "tiny b2 s64 over gloo", without the backend if rows of several backends are
// compared.
std::string NameOf(const Choice& choice);
// Returns a text such as "+29.2 [15.4, 42.9]".
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
