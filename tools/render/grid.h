#ifndef GRADSYNC_TOOLS_RENDER_GRID_H_
#define GRADSYNC_TOOLS_RENDER_GRID_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tables/answers.h"

// What the screen is made of: lines, and grids of them.
namespace gradsync::tools {

using Lines = std::vector<std::string>;

inline constexpr size_t kMostSettings = 5;  // of more, settings are lines and not columns

std::string Padded(std::string_view text, size_t width);

// `text` behind `head`, broken at spaces, with `end` where it goes on; what does not fit into `most` lines is
// cut.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "");

// A table whose first column holds names. Columns that do not fit are left out.
struct Grid {
  std::vector<std::string> over{};  // each stands above its column and those behind it that have none
  std::vector<std::vector<std::string>> rows{};  // the first holds the headers
  size_t num_last = 0;                           // rows at the end that stay, if there is room for others

  // How many characters each column has. Where there is room, a heading fits over its columns.
  std::vector<size_t> Widths() const;
  bool fits() const;
  // At most so many lines: of the others those that come last are only named. Nothing in fewer than three.
  void AddTo(size_t most, Lines* lines) const;
};

// One setting has a column for each number of a row; several have a column each; many a line each.
Grid GridOf(const std::vector<Choice>& choices, int decimals);

// What a setting is called, also where there is but one: "tiny, batch 2, sequence 64".
std::string NameOf(const NamedSetting& at);
// "tiny b2 s64 over gloo", without the backend where rows over all are compared.
std::string NameOf(const Choice& choice);
// "+29.2 [15.4, 42.9]".
std::string DifferenceText(const Estimate& estimate, int decimals = 1);
// The megabytes that a rank sends in a step; empty if unknown.
std::string SentIn(const Row* row);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_GRID_H_
