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

// Join uses TextOf instead of Abseil's StrCat: StrCat would make each file that includes this header take
// about 0.4 s longer to compile.
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

// Concatenates its arguments: texts, characters, numbers (real numbers rounded to six significant digits),
// shapes as "(2, 3)", and objects that have a function ToString().
template <class... Parts>
std::string Join(const Parts&... parts) {
  return internal::Concatenate({std::string_view(internal::TextOf(parts))...});
}

// Thrown if a function gets an invalid argument, or if a program gets an invalid flag or file. The message is
// one line that says what is wrong, usually with the argument, the value found and the value expected.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// If `ok` is false, throws InvalidInput with the joined `parts` as its message. The parts are converted to
// text only if `ok` is false, so a caller should pass a shape itself, and not the shape's text.
template <class... Parts>
void Require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw InvalidInput(Join(parts...));
}

}  // namespace gradsync
