#pragma once

#include <chrono>

#include "model/base/test_errors.h"  // IWYU pragma: export

namespace gradsync::comm {

using gradsync::ErrorOf;

inline std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
// Returns the point in time one minute from now, as a deadline that a test's call misses only if it hangs.
inline std::chrono::steady_clock::time_point DeadlineInAMinute() { return In(std::chrono::seconds(60)); }

}  // namespace gradsync::comm
