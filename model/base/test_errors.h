#pragma once

#include <string>

#include "model/base/error.h"

namespace gradsync {

// For tests: returns the message of the `Error` that `action` throws; "no error" if `action` throws nothing.
// Exceptions of other types leave ErrorOf.
template <class Error = InvalidInput, class Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gradsync
