#pragma once

namespace gradsync {

// The exit statuses of this project's programs in C++ and in Python, except for the command `gradsync check`.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or no record could be read
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// `summarize --baseline=PATH` exits with kNo if, for example, a configuration is slower than in the older
// results in PATH. `summarize --precision=P` exits with kNo if, for example, a confidence interval of the
// latest run exceeds +- P of the baseline's step.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something, such as memory, AVX2 or PyTorch

}  // namespace gradsync
