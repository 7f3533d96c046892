#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"

namespace gradsync::bench {

// Returns facts about this program and machine for a record. Unknown values are empty, zero or "unknown";
// `dirty` is true if the commit is unknown. The function leaves the members `gpu`, `clock` and `base_command`
// for its caller to set.
Provenance CollectProvenance(int argc, const char* const* argv);

// Returns a command's argument as a shell needs it: in quotes if it is empty or has other characters than
// letters, digits and _-+=,./:@%.
std::string Quoted(std::string_view argument);

// Sets the members `gradsync_commit` and `dirty` of `provenance` from `stamp`, a text as BuildStamp() returns
// it.
void SetCommit(std::string_view stamp, Provenance& provenance);

}  // namespace gradsync::bench
