#ifndef GRADSYNC_MODEL_ERROR_H_
#define GRADSYNC_MODEL_ERROR_H_

#include <sstream>
#include <stdexcept>
#include <string>

namespace gradsync {

// Joins its arguments with operator<<.
template <class... Parts>
std::string Join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
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
