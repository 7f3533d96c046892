#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Lines of text and grids for a terminal.
namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// Adds `head` and `text` to the lines. Breaks lines at spaces; a broken line ends with `end`. Cuts text that
// does not fit into `most` lines.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table whose first column has names. Omits columns that do not fit.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first row has the headers
  // The number of rows at the end that are kept when rows are omitted, if there is room for other rows.
  size_t num_last = 0;
  // Number of left-aligned columns; other columns are right-aligned.
  size_t num_left = static_cast<size_t>(-1);

  bool fits() const;
  // Adds at most `most` lines. If rows do not fit, the last rows are listed by name only. Adds nothing if
  // `most` is less than three.
  void AddTo(size_t most, Lines* lines) const;
  // Returns all lines.
  std::string ToString() const;
};

}  // namespace gradsync
