#pragma once

namespace gradsync {

// Defines the exit statuses of this project's programs in C++ and in Python. The command `gradsync check` of
// the Python package has its own exit statuses, which check.py describes.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or no record could be read
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// The exit status of the program `summarize` in two cases. In the first case, the comparison with the older
// results --baseline=PATH fails, for example because a configuration has become slower. In the second case,
// the records compare nothing, or less precisely than the flag --precision asks.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something, such as memory, AVX2 or PyTorch

}  // namespace gradsync
