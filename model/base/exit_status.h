#pragma once

namespace gradsync {

// Exit statuses of programs. Scripts and Python programs also use these numbers, except `gradsync check`.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or there was no input
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// The measured answer is negative: a row is slower, or an interval is too wide.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something: memory, matplotlib, PyTorch

}  // namespace gradsync
