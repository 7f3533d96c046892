#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"

namespace gradsync::bench {

// Collects facts about this process and its machine. Unknown values are empty, zero or "unknown". Never
// throws. The caller adds gpu, clock and more libraries.
Provenance CollectProvenance(int argc, const char* const* argv);

// Quotes an argument for a shell.
std::string Quoted(std::string_view argument);

// Sets the commit, and whether files differed from the commit, from the text of BuildStamp().
void SetCommit(std::string_view stamp, Provenance& provenance);

}  // namespace gradsync::bench
