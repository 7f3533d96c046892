#ifndef GRADSYNC_MODEL_ERROR_H_
#define GRADSYNC_MODEL_ERROR_H_

#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace gradsync {

namespace internal {

// `part` as absl::StrCat takes it, which takes no char, and no std::string_view where Abseil has its own.
template <class Part>
decltype(auto) Printable(const Part& part) {
  if constexpr (std::same_as<Part, char>)
    return absl::string_view(&part, 1);
  else if constexpr (std::same_as<Part, std::string_view>)
    return absl::string_view(part.data(), part.size());
  else if constexpr (requires { part.ToString(); })
    return part.ToString();
  else
    return (part);
}

}  // namespace internal

// Concatenates text, numbers (real ones with six digits) and what has a ToString().
template <class... Parts>
std::string Join(const Parts&... parts) {
  return absl::StrCat(internal::Printable(parts)...);
}

// The caller passed something that cannot work: a shape, a dtype, a flag, a file. The message is one line
// that names the thing, what was found and what was expected.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Throws InvalidInput with the joined parts unless `ok`.
template <class... Parts>
void Require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw InvalidInput(Join(parts...));
}

}  // namespace gradsync

#endif  // GRADSYNC_MODEL_ERROR_H_
