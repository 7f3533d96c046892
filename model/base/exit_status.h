#pragma once

namespace gradsync {

// Exit statuses of this project's programs, in C++ and in Python. `gradsync check` defines its own.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or no record could be read
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// The exit status of `summarize` if a comparison with --baseline fails, for example because a row is slower,
// or if the confidence interval of a difference is wider than --precision allows.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something, such as memory, AVX2 or PyTorch

}  // namespace gradsync
