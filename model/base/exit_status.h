#pragma once

namespace gradsync {

// Exit statuses of this project's programs, also of those in Python, except `gradsync check`.
inline constexpr int kDone = 0;          // the program succeeded, or printed its help
inline constexpr int kFailed = 1;        // the program or a rank failed, or there was no input
inline constexpr int kBadArguments = 2;  // bad arguments, which one line on stderr names
// The exit status if a comparison failed: training is slower than in the baseline, or a confidence interval
// is too wide.
inline constexpr int kNo = 3;
inline constexpr int kLacking = 4;  // this machine lacks something: memory, matplotlib, PyTorch

}  // namespace gradsync
