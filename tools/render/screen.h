#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// Returns the answer on one screen, as plain text with a maximum number of lines and columns: the row to use
// in each setting, undecided settings with a command that would decide them, the differences of rows by
// setting, and one line each about bandwidths, other runs, checks and warnings. Tables have all other values.
std::string RenderScreen(const Summary& summary);

}  // namespace gradsync::tools
