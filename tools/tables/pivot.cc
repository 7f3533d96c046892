#include "tools/tables/pivot.h"

#include <algorithm>
#include <map>

#include "model/error.h"

namespace gradsync::tools {

Table Pivot(const PivotOptions& options, const std::vector<View>& views,
            const std::vector<Field<View>>& place, const std::function<std::string(const View&)>& heading_of,
            const std::vector<Field<View>>& values) {
  std::vector<std::string> headings;
  // NaN, such as of a sequence length where there is none, would have no order.
  std::map<std::vector<std::pair<double, std::string>>, std::map<std::string, const View*>> lines;
  for (const View& view : views) {
    const std::string heading = heading_of(view);
    if (std::ranges::count(headings, heading) == 0) headings.push_back(heading);
    std::vector<std::pair<double, std::string>> key;
    for (const TableCell& cell : TableOf<View>::CellsOf(place, view)) {
      const double* const number = std::get_if<double>(&cell);
      const bool is_number = number != nullptr && !std::isnan(*number);
      key.emplace_back(is_number ? *number : -1, number == nullptr ? std::get<std::string>(cell) : "");
    }
    lines[key].emplace(heading, &view);
  }
  struct Source {
    std::string heading;
    const Field<View>* field;
  };
  std::vector<Source> sources;
  std::vector<Column> columns = TableOf<View>::ColumnsOf(place);
  const size_t num_outer = options.by_heading ? headings.size() : values.size();
  const size_t num_inner = options.by_heading ? values.size() : headings.size();
  for (size_t outer = 0; outer < num_outer; ++outer) {
    for (size_t inner = 0; inner < num_inner; ++inner) {
      const Field<View>& field = values[options.by_heading ? inner : outer];
      const std::string& heading = headings[options.by_heading ? outer : inner];
      sources.push_back({heading, &field});
      for (Column& column : TableOf<View>::ColumnsOf({field})) {
        column.section = static_cast<int>(outer) + 1;
        if (!options.by_heading) column.name = heading;
        columns.push_back(std::move(column));
      }
    }
  }
  Table table(options.name, options.title, columns, Audience::kPeople);
  table.SetDetail();
  for (size_t outer = 0; outer < num_outer; ++outer) {
    table.SetSectionTitle(static_cast<int>(outer) + 1,
                          options.by_heading ? Join("[", headings[outer], "]") : values[outer].column.name);
  }
  for (const auto& [key, line] : lines) {
    std::vector<TableCell> cells = TableOf<View>::CellsOf(place, *line.begin()->second);
    std::vector<size_t> marked;
    for (const auto& [heading, field] : sources) {
      const auto view = line.find(heading);
      if (view == line.end()) {
        const size_t width = field->column.has_interval ? 3 : 1;
        cells.insert(cells.end(), width, std::numeric_limits<double>::quiet_NaN());
        continue;
      }
      const std::optional<Flag>& flag = field->column.marked_with;
      if (flag && Has(view->second->row.flags, *flag)) marked.push_back(cells.size());
      Append(TableOf<View>::CellsOf({*field}, *view->second), &cells);
    }
    table.AddRow(std::move(cells));
    for (const size_t column : marked) table.MarkLast(column);
  }
  return table;
}

}  // namespace gradsync::tools
