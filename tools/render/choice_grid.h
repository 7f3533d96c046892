#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/base/grid.h"
#include "tools/tables/answers.h"

// The rows of choices on the screen.
namespace gradsync::tools {

inline constexpr size_t kMostSettings = 5;  // of more, settings are lines and not columns

// One setting has a column for each number of a row; several have a column each; many a line each.
Grid GridOf(const std::vector<Choice>& choices, int decimals);

// What a setting is called, also where there is but one: "tiny, batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// "tiny b2 s64 over gloo", without the backend where rows over all are compared.
std::string NameOf(const Choice& choice);
// "+29.2 [15.4, 42.9]".
std::string DifferenceText(const Estimate& estimate, int decimals = 1);

}  // namespace gradsync::tools
