#pragma once

#include <string>
#include <string_view>

#include "bench/records/record.h"

namespace gradsync::bench {

// Collects facts about this program and machine for a record. Unknown values are empty, zero or "unknown".
// The caller sets `gpu`, `clock` and `base_command`.
Provenance CollectProvenance(int argc, const char* const* argv);

// Returns a command's argument as a shell needs it: in quotes if it is empty or has other characters than
// letters, digits and _-+=,./:@%.
std::string Quoted(std::string_view argument);

// Sets the fields `gradsync_commit` and `dirty` from a text in the format of BuildStamp().
void SetCommit(std::string_view stamp, Provenance& provenance);

}  // namespace gradsync::bench
