#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// Appends `head` and `text` to `lines`, broken at spaces into lines of at most kScreenColumns characters. A
// long `head` or word may make a line longer, except the last line, which is cut to kScreenColumns
// characters. At most `most` (at least 1) lines are appended; an ellipsis replaces words of `text` that do
// not fit. `end`, at most two characters such as a backslash, is appended to each line except the last.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table of texts, whose first column has the names of the rows. Columns on the right that do not fit into
// kScreenColumns characters are not printed.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first row has the headers
  // AddTo does not leave out the last num_last rows if its argument `most` is at least num_last + 4.
  size_t num_last = 0;
  // Number of columns, from the left, whose texts are left-aligned; the texts of other columns are
  // right-aligned.
  size_t num_left = static_cast<size_t>(-1);

  bool fits() const;
  // Appends one line for each row of the table to `lines`, the row of headers included. If the table has more
  // than `most` rows, `most` lines are appended, one of which names omitted rows. If `most` is less than 3,
  // nothing is appended for a table of more than `most` rows.
  void AddTo(size_t most, Lines* lines) const;
  std::string ToString() const;
};

}  // namespace gradsync
