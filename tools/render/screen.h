#pragma once

#include <cstddef>
#include <string>

#include "tools/tables/summarize.h"

namespace gradsync::tools {

inline constexpr size_t kScreenLines = 29;

// The answer on one screen, as plain text of at most so many lines and columns: which row to use in each
// setting and how sure that is, what is undecided and the command that would decide it, the rows' differences
// by setting, and in a line each bandwidths, other runs, checks and warnings. The tables hold the rest.
std::string ScreenOf(const Summary& summary);

}  // namespace gradsync::tools
