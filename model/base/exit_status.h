#ifndef GRADSYNC_MODEL_BASE_EXIT_STATUS_H_
#define GRADSYNC_MODEL_BASE_EXIT_STATUS_H_

namespace gradsync {

// How a program ends. Scripts and Python's programs have the same numbers.
inline constexpr int kDone = 0;          // or printed its help
inline constexpr int kFailed = 1;        // it or a rank, or there was nothing to work on
inline constexpr int kBadArguments = 2;  // named in one line on stderr
inline constexpr int kNo = 3;            // what was asked is not so: a row is slower, an interval too wide
inline constexpr int kLacking = 4;       // this machine has not what that takes: memory, matplotlib

}  // namespace gradsync

#endif  // GRADSYNC_MODEL_BASE_EXIT_STATUS_H_
