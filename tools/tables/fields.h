#ifndef GRADSYNC_TOOLS_TABLES_FIELDS_H_
#define GRADSYNC_TOOLS_TABLES_FIELDS_H_

#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/tables/builder.h"
#include "tools/tables/table.h"

// Columns that know what they show, so that a column's name and its value stand in one line.
namespace gradsync::tools {

template <class T>
void Append(std::vector<T> more, std::vector<T>* all) {
  all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// A column, and its cell in the row that shows a Row.
template <class Row>
struct Field {
  // `value_of`: a function of the Row, or a member of it: a number, a text or flags.
  template <class Value>
  Field(Column shown, Value value_of)
      : column(std::move(shown)), value([value_of = std::move(value_of)](const Row& row) -> Cell {
          using Result = std::decay_t<std::invoke_result_t<Value, const Row&>>;
          if constexpr (std::is_arithmetic_v<Result>) {
            return static_cast<double>(std::invoke(value_of, row));
          } else {
            return std::invoke(value_of, row);
          }
        }) {}

  Column column;
  std::function<Cell(const Row&)> value;
};

// A table of Rows.
template <class Row>
class TableOf : public Table {
 public:
  TableOf(std::string name, std::string title, std::vector<Field<Row>> fields,
          Audience audience = Audience::kAll)
      : Table(std::move(name), std::move(title), ColumnsOf(fields), audience), fields_(std::move(fields)) {}

  std::vector<Cell> CellsOf(const Row& row) const {
    std::vector<Cell> cells;
    for (const Field<Row>& field : fields_) cells.push_back(field.value(row));
    return cells;
  }
  void Add(const Row& row) { AddRow(CellsOf(row)); }

 private:
  static std::vector<Column> ColumnsOf(const std::vector<Field<Row>>& fields) {
    std::vector<Column> columns;
    for (const Field<Row>& field : fields) columns.push_back(field.column);
    return columns;
  }

  std::vector<Field<Row>> fields_;
};

// Values of the row's own measurement: of its configuration (empty, NaN without such a name), and of one kind
// of time, in seconds (NaN without such samples).
inline auto Text(std::string_view name) {
  return [name](const Measured& row) { return row.own.record.config.StringOr(name, ""); };
}
double ConfigNumber(const Measurement& measurement, std::string_view name);
inline auto Number(std::string_view name) {
  return [name](const Measured& row) { return ConfigNumber(row.own, name); };
}
double MeanOf(const Measurement& measurement, std::string_view samples);
template <class Statistic>
auto OfTimes(std::string_view samples, Statistic statistic) {
  return [=](const Measured& row) -> double {
    const Series* const series = row.own.Find(samples);
    return series == nullptr ? std::numeric_limits<double>::quiet_NaN() : std::invoke(statistic, *series);
  };
}
inline auto MeanTime(std::string_view samples) { return OfTimes(samples, &Series::mean); }
// Population's.
inline auto StdTime(std::string_view samples) { return OfTimes(samples, &Series::std); }
inline auto TimePercentile(std::string_view samples, double p) {
  return OfTimes(samples, [p](const Series& series) { return series.percentile(p); });
}

// What was run, and how often: device, dtype, world_size, threads_per_rank, comm_threads, steps, launches,
// run (the first launch's). People are told once what is the same in all rows.
std::vector<Field<Measured>> RunFields();
template <class Row>
void AppendRunFields(std::vector<Field<Row>>* fields) {
  for (Field<Measured>& field : RunFields()) fields->push_back({field.column, std::move(field.value)});
}

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FIELDS_H_
