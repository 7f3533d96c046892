#include "tools/tables/pivot.h"

#include <limits>
#include <map>
#include <utility>

namespace gradsync::tools {
namespace {

// The rows that stand in one line, by heading.
using Line = std::map<std::string, size_t>;

}  // namespace

void AddLines(const Table& rows, const std::vector<size_t>& numbers,
              const std::function<std::string(size_t row)>& heading_of,
              const std::vector<WideColumn>& columns, Table* wide) {
  std::vector<size_t> sources;
  for (const WideColumn& column : columns) sources.push_back(rows.column(column.from));
  const auto belongs = [&](const Line& line, size_t row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const Cell& other = rows.cell(line.begin()->second, sources[i]);
      if (columns[i].heading.empty() && !AreSame(rows.cell(row, sources[i]), other)) return false;
    }
    return true;
  };
  std::vector<Line> lines;
  for (const size_t row : numbers) {
    std::string heading = heading_of(row);
    if (lines.empty() || !belongs(lines.back(), row) || lines.back().contains(heading)) lines.emplace_back();
    lines.back().emplace(std::move(heading), row);
  }
  for (const Line& line : lines) {
    std::vector<Cell> cells;
    std::vector<size_t> marked;
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto row = columns[i].heading.empty() ? line.begin() : line.find(columns[i].heading);
      if (row == line.end()) {
        const bool is_text = rows.is_text(sources[i]);
        cells.push_back(is_text ? Cell("") : Cell(std::numeric_limits<double>::quiet_NaN()));
        continue;
      }
      cells.push_back(rows.cell(row->second, sources[i]));
      if (rows.marked(row->second, sources[i])) marked.push_back(i);
    }
    wide->AddRow(std::move(cells));
    for (const size_t column : marked) wide->MarkLast(column);
  }
}

std::vector<Column> ColumnsOf(const std::vector<WideColumn>& columns) {
  std::vector<Column> all;
  for (const WideColumn& column : columns) all.push_back(column.column);
  return all;
}

}  // namespace gradsync::tools
