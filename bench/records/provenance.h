#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"

namespace gradsync::bench {

// What this process finds out about itself and its machine. What it cannot find stays empty, zero or
// "unknown"; it never throws. The caller adds gpu, clock and more libraries.
Provenance CollectProvenance(int argc, const char* const* argv);

// An argument in a form that a shell takes back.
std::string Quoted(std::string_view argument);

// Sets the commit and whether files differed from it, from the text of BuildStamp().
void SetCommit(std::string_view stamp, Provenance& provenance);

}  // namespace gradsync::bench
