#pragma once

namespace gradsync {

// The exit statuses of this project's programs in C++ and in Python, except for the command `gradsync check`.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or no record could be read
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// kNo is the exit status of the program `summarize` in two cases. With --baseline=PATH, a result is worse
// than the older result in PATH. With --precision, a confidence interval is wider than --precision, or
// unknown.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something, such as memory, AVX2 or PyTorch

}  // namespace gradsync
