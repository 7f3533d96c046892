#include "model/base/grid.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "model/base/text.h"

namespace gradsync {
namespace {

constexpr size_t kMostLabel = 34;   // maximum number of characters of a row's name
constexpr size_t kFewestLines = 3;  // number of lines: headers, a row, and the names of omitted rows

std::vector<size_t> WidthsOf(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], NumCharacters(row[i]));
  }
  return widths;
}

}  // namespace

std::string Padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, NumCharacters(text)), ' ');
}

void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines, const char* end) {
  const std::string indent(NumCharacters(head), ' ');
  const size_t begin = lines->size();
  std::string line = head;
  bool is_first = true;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (!is_first && NumCharacters(line) + 1 + NumCharacters(word) > kScreenColumns - 2) {
      if (lines->size() - begin + 1 == most) {
        line += " …";
        break;
      }
      lines->push_back(line + end);
      line = indent;
      is_first = true;
    }
    line += is_first ? word : " " + word;
    is_first = false;
  }
  lines->push_back(Shortened(line, kScreenColumns));
}

bool Grid::fits() const {
  const std::vector<size_t> widths = WidthsOf(rows);
  return std::accumulate(widths.begin() + 1, widths.end(),
                         std::min(widths[0], kMostLabel) + 2 * (widths.size() - 1)) <= kScreenColumns;
}

void Grid::AddTo(size_t most, Lines* lines) const {
  if (most < std::min(kFewestLines, rows.size())) return;
  std::vector<size_t> widths = WidthsOf(rows);
  size_t label_width = kScreenColumns;
  for (size_t i = 1; i < widths.size(); ++i) label_width -= std::min(label_width, widths[i] + 2);
  widths[0] = std::min(widths[0], std::max(label_width, kMostLabel));
  size_t num_columns = 1;
  for (size_t end = widths[0]; num_columns < widths.size(); ++num_columns) {
    widths[num_columns] = std::min(widths[num_columns], kMostLabel);
    end += 2 + widths[num_columns];
    if (end > kScreenColumns) break;
  }
  const size_t kept = rows.size() <= most || most > num_last + kFewestLines ? num_last : 0;
  const size_t first_last = rows.size() - kept;
  const size_t shown = rows.size() <= most ? first_last : most - kept - 1;
  std::vector<std::string> names;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (row >= shown && row < first_last) {
      names.push_back(rows[row][0]);
      if (row + 1 == first_last) AddText("not shown: ", absl::StrJoin(names, ", "), 1, lines);
      continue;
    }
    std::string line;
    for (size_t i = 0; i < num_columns; ++i) {
      const std::string text = Shortened(rows[row][i], widths[i]);
      const std::string gap(widths[i] - NumCharacters(text), ' ');
      line += (i == 0 ? "" : "  ") + (i < num_left ? text + gap : gap + text);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines->push_back(line);
  }
}

std::string Grid::ToString() const {
  Lines lines;
  AddTo(rows.size(), &lines);
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace gradsync
