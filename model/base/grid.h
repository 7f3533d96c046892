#ifndef GRADSYNC_MODEL_BASE_GRID_H_
#define GRADSYNC_MODEL_BASE_GRID_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// What a terminal shows: lines of text, and grids of them.
namespace gradsync {

using Lines = std::vector<std::string>;

inline constexpr size_t kScreenColumns = 110;

std::string Padded(std::string_view text, size_t width);

// `text` behind `head`, broken at spaces, with `end` where it goes on; what does not fit into `most` lines is
// cut.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table whose first column holds names. Columns that do not fit are left out.
struct Grid {
  std::vector<std::vector<std::string>> rows{};  // the first holds the headers
  size_t num_last = 0;                           // rows at the end that stay, if there is room for others
  size_t num_left = static_cast<size_t>(-1);     // columns that begin in line; others, of numbers, end so

  bool fits() const;
  // At most so many lines: of the others those that come last are only named. Nothing in fewer than three.
  void AddTo(size_t most, Lines* lines) const;
  // All lines.
  std::string ToString() const;
};

}  // namespace gradsync

#endif  // GRADSYNC_MODEL_BASE_GRID_H_
