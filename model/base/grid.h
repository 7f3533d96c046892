#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// Appends `head` followed by `text` to `lines`, broken at spaces into at most `most` lines. A line is broken
// before it exceeds kScreenColumns characters, but never within a word. An ellipsis replaces the end of a
// text that does not fit. Each line except the last ends with `end`, such as a backslash in a shell command.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table with the rows' names in its first column. When it is printed, columns on the right that do not fit
// into kScreenColumns characters are omitted.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first row has the headers
  // If AddTo has to omit rows, it keeps the last num_last rows and omits rows before them. But if AddTo may
  // append at most num_last + 3 lines, it omits the last rows.
  size_t num_last = 0;
  // The first num_left columns are left-aligned, the others right-aligned. By default all are left-aligned.
  size_t num_left = static_cast<size_t>(-1);

  bool fits() const;
  // Appends at most `most` lines to `lines`, one for each row. If there are more than `most` rows (with the
  // headers), one line lists the names of the omitted rows, as far as they fit. If `most` is less than three
  // and less than the number of rows, AddTo appends nothing.
  void AddTo(size_t most, Lines* lines) const;
  std::string ToString() const;
};

}  // namespace gradsync
