#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

namespace internal {

std::string SixDigits(double number);
std::string Concatenate(std::initializer_list<std::string_view> texts);
std::string Tuple(const std::vector<int64_t>& numbers);

// This does not use Abseil's StrCat, because nearly every file includes this file, and each would take 0.4 s
// longer to compile.
template <class Part>
auto TextOf(const Part& part) {
  if constexpr (std::convertible_to<const Part&, std::string_view>)
    return std::string_view(part);
  else if constexpr (requires { part.ToString(); })
    return part.ToString();
  else if constexpr (std::same_as<Part, std::vector<int64_t>>)  // a shape
    return Tuple(part);
  else if constexpr (requires { part.data() + part.size(); })  // Abseil's string_view
    return std::string_view(part.data(), part.size());
  else if constexpr (std::same_as<Part, char>)
    return std::string(1, part);
  else if constexpr (std::floating_point<Part>)
    return SixDigits(part);
  else
    return std::to_string(part);
}

}  // namespace internal

// Concatenates text, numbers (real numbers with six digits), shapes as "(2, 3)", and objects with ToString().
template <class... Parts>
std::string Join(const Parts&... parts) {
  return internal::Concatenate({std::string_view(internal::TextOf(parts))...});
}

// The caller passed an invalid argument, such as a shape, a dtype, a flag or a file. The message is one line
// with the argument, the value found and the value expected.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Throws InvalidInput with the joined parts unless `ok`. The parts become text only if it throws, so pass a
// shape itself and not its text, which would be made in every call.
template <class... Parts>
void Require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw InvalidInput(Join(parts...));
}

}  // namespace gradsync
