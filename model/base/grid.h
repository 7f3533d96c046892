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

// Adds `head` and `text` to the lines. Breaks lines at spaces; a broken line ends with `end`. Text that does
// not fit into `most` lines is cut.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table whose first column has names. Columns that do not fit are left out.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first holds the headers
  size_t num_last = 0;                           // last rows, kept if there is room for others
  size_t num_left = static_cast<size_t>(-1);     // left-aligned columns; others are right-aligned

  bool fits() const;
  // Adds at most `most` lines. If rows do not fit, the last ones are listed by name only. Adds nothing in
  // fewer than three lines.
  void AddTo(size_t most, Lines* lines) const;
  // All lines.
  std::string ToString() const;
};

}  // namespace gradsync
