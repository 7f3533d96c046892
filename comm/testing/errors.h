#pragma once

#include <chrono>
#include <string>

namespace gradsync::comm {

// Returns the message of the `Error` that `action` throws; "no error" if it does not throw.
template <class Error, class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
// Returns a deadline that is long enough for any call in a test; only a call that hangs misses it.
inline std::chrono::steady_clock::time_point DeadlineInAMinute() { return In(std::chrono::seconds(60)); }

}  // namespace gradsync::comm
