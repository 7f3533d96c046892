#pragma once

#include <sys/random.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/strings/escaping.h"

namespace gradsync::comm {

// Returns a text of 32 random hexadecimal digits, for names, nonces and secrets. Throws std::system_error if
// getrandom(2) fails.
inline std::string RandomHex() {
  std::string bytes(16, '\0');
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return absl::BytesToHexString(bytes);
}

}  // namespace gradsync::comm
