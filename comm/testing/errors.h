#pragma once

#include <chrono>

#include "model/base/test_errors.h"  // IWYU pragma: export

namespace gradsync::comm {

using gradsync::ErrorOf;

inline std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
// Returns a deadline that is long enough for any call in a test; only a call that hangs misses it.
inline std::chrono::steady_clock::time_point DeadlineInAMinute() { return In(std::chrono::seconds(60)); }

}  // namespace gradsync::comm
