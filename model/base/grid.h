#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// Appends `head` followed by `text` to `lines`, broken at spaces into at most `most` lines of kScreenColumns;
// the rest is cut. Each broken line ends with `end`, such as a backslash in a shell command.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table with the rows' names in its first column. When it is printed, columns on the right that do not fit
// into kScreenColumns are omitted.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first row has the headers
  // If AddTo may not print all rows, it omits rows in the middle; it keeps the last num_last rows if
  // possible.
  size_t num_last = 0;
  // Number of left-aligned columns; other columns are right-aligned.
  size_t num_left = static_cast<size_t>(-1);

  bool fits() const;
  // Appends at most `most` lines. If there are more than `most` rows, one of these lines has the names of the
  // omitted rows. If there are more than `most` rows, and `most` is less than three, appends nothing.
  void AddTo(size_t most, Lines* lines) const;
  std::string ToString() const;
};

}  // namespace gradsync
