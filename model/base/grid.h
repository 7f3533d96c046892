#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// Appends `head` followed by `text` to `lines`, as at most `most` lines. If `text` needs more than `most`
// lines, the last line ends with an ellipsis. Lines are broken only at spaces, so that they have at most
// kScreenColumns characters. AddText appends `end` to each line except the last; for a shell command of
// several lines, `end` is a backslash.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table of texts, with the rows' names in its first column. AddTo and ToString format the table, and omit
// columns on the right that do not fit into lines of kScreenColumns characters.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first row has the headers
  // If the table has more than `most` rows, AddTo omits rows directly before the last num_last rows. But if
  // `most` is num_last + 3 or less, AddTo omits the table's last rows, as if num_last were 0.
  size_t num_last = 0;
  // The table's first num_left columns are left-aligned, the others right-aligned. By default, all columns
  // are left-aligned.
  size_t num_left = static_cast<size_t>(-1);

  bool fits() const;
  // Appends one line for each row of the table, the row of headers included, to `lines`. If these are more
  // than `most` lines, AddTo omits rows, and appends `most` lines: one of them lists as many names of omitted
  // rows as fit. If `most` is less than three and less than the number of rows, AddTo appends nothing.
  void AddTo(size_t most, Lines* lines) const;
  std::string ToString() const;
};

}  // namespace gradsync
