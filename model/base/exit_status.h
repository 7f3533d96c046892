#pragma once

namespace gradsync {

// Defines the exit statuses of this project's programs in C++ and in Python. The command `gradsync check` of
// the Python package has its own exit statuses, which check.py describes.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or no record could be read
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// kNo is the exit status of the program `summarize` if the comparison with the older results --baseline=PATH
// fails, for example because a configuration has become slower. kNo is also the exit status of `summarize` if
// its flag --precision is given, and the records compare nothing, or less precisely than --precision asks.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something, such as memory, AVX2 or PyTorch

}  // namespace gradsync
