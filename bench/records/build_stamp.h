#pragma once

namespace gradsync::bench {

// The commit that this program was built from, with "-dirty" behind it if files differed from it. Programs
// that depend on :build_stamp have it. Others, such as tests, and those built without git have
// "unknown-dirty".
const char* BuildStamp();

}  // namespace gradsync::bench
