#ifndef GRADSYNC_TOOLS_TABLES_FIELDS_H_
#define GRADSYNC_TOOLS_TABLES_FIELDS_H_

#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tools/tables/rows.h"
#include "tools/tables/table.h"

// Columns that know what they show, so that a column's name and its value stand in one line.
namespace gradsync::tools {

template <class T>
void Append(std::vector<T> more, std::vector<T>* all) {
  all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// A column, and its value of a Subject: whatever a line of the table is about.
template <class Subject>
struct Field {
  using Value = std::variant<double, std::string, Flags, Estimate>;

  // `value_of`: a function of the Subject, or a member of it. An Estimate makes three columns: "delta (%)",
  // "delta_low (%)" and "delta_high (%)", which people see as one.
  template <class Function>
  Field(Column shown, Function value_of)
      : column(std::move(shown)), value([value_of = std::move(value_of)](const Subject& subject) -> Value {
          using Result = std::decay_t<std::invoke_result_t<Function, const Subject&>>;
          if constexpr (std::is_arithmetic_v<Result>) {
            return static_cast<double>(std::invoke(value_of, subject));
          } else {
            return std::invoke(value_of, subject);
          }
        }) {
    column.has_interval =
        std::is_same_v<std::decay_t<std::invoke_result_t<Function, const Subject&>>, Estimate>;
  }

  Column column;
  std::function<Value(const Subject&)> value;
};

// A table of Subjects.
template <class Subject>
class TableOf : public Table {
 public:
  TableOf(std::string name, std::string title, std::vector<Field<Subject>> fields,
          Audience audience = Audience::kAll)
      : Table(std::move(name), std::move(title), ColumnsOf(fields), audience), fields_(std::move(fields)) {}

  void Add(const Subject& subject) { AddRow(CellsOf(fields_, subject)); }

  static std::vector<TableCell> CellsOf(const std::vector<Field<Subject>>& fields, const Subject& subject) {
    std::vector<TableCell> cells;
    for (const Field<Subject>& field : fields) {
      typename Field<Subject>::Value value = field.value(subject);
      if (const Estimate* const estimate = std::get_if<Estimate>(&value)) {
        for (const double number : {estimate->value, estimate->interval.low, estimate->interval.high}) {
          cells.emplace_back(number);
        }
      } else if (const double* const number = std::get_if<double>(&value)) {
        cells.emplace_back(*number);
      } else if (std::string* const text = std::get_if<std::string>(&value)) {
        cells.emplace_back(std::move(*text));
      } else {
        cells.emplace_back(std::get<Flags>(std::move(value)));
      }
    }
    return cells;
  }

  static std::vector<Column> ColumnsOf(const std::vector<Field<Subject>>& fields) {
    std::vector<Column> columns;
    for (const Field<Subject>& field : fields) {
      columns.push_back(field.column);
      if (!field.column.has_interval) continue;
      // Before the unit.
      const size_t end = std::min(field.column.name.find(" ("), field.column.name.size());
      for (const char* const suffix : {"_low", "_high"}) {
        Column limit{.name = field.column.name, .kind = field.column.kind, .audience = Audience::kMachines};
        columns.push_back(std::move(limit));
        columns.back().name.insert(end, suffix);
      }
    }
    return columns;
  }

 private:
  std::vector<Field<Subject>> fields_;
};

// A row in its cell, of which a table may show a part: a phase of its step, a bucket.
struct View {
  const Cell& cell;
  const Row& row;
  size_t part = 0;

  const Measurement& measured() const { return *row.measured; }
  // The variant, with its cell where there are several.
  std::string name() const { return Join(cell.name, cell.name.empty() ? "" : ": ", row.variant()); }
  // Null if there is none.
  const Row* base() const { return row.baseline == Row::kNone ? nullptr : &cell.rows[row.baseline]; }
};

// Values of the row: of its configuration and facts (empty, NaN without such a name), and of one kind of
// time, in seconds (NaN without such samples).
inline auto Text(std::string_view name) {
  return [name](const View& view) { return view.row.config().StringOr(name, ""); };
}
inline auto Number(std::string_view name) {
  return [name](const View& view) { return ConfigNumber(view.measured(), name); };
}
inline auto Fact(std::string_view name) {
  return [name](const View& view) { return view.row.facts().DoubleOr(name, kNaN); };
}
template <class Statistic>
auto OfTimes(std::string_view samples, Statistic statistic) {
  return [=](const View& view) -> double {
    const Series* const series = view.measured().Find(samples);
    return series == nullptr ? kNaN : std::invoke(statistic, *series);
  };
}
inline auto MeanTime(std::string_view samples) { return OfTimes(samples, &Series::mean); }
// Population's.
inline auto StdTime(std::string_view samples) { return OfTimes(samples, &Series::std); }
inline auto TimePercentile(std::string_view samples, double p) {
  return OfTimes(samples, [p](const Series& series) { return series.percentile(p); });
}
// Of the strategies' gradients; peers tell nothing of them.
double NumCollectives(const View& view);
inline Flags FlagsOfRow(const View& view) { return view.row.flags; }

// What was run, and how often: device, dtype, world_size, threads_per_rank, comm_threads, steps, launches,
// run (the first launch's). People are told once what is the same in all rows.
std::vector<Field<View>> RunFields(int section = 0);

// The cells about training.
std::vector<Cell> TrainingOf(const std::vector<Cell>& cells);

// One row per file of tables, in the order in which a report shows them. The file defines
// Add...Tables(cells, tables).
#define GRADSYNC_TABLES(ROW) \
  ROW(AllReduce)             \
  ROW(Resolution)            \
  ROW(Training)              \
  ROW(Links)                 \
  ROW(Bucket)                \
  ROW(Peers)                 \
  ROW(Published)

#define GRADSYNC_DECLARE(Name) \
  void Add##Name##Tables(const std::vector<Cell>& cells, std::vector<Table>* tables);
GRADSYNC_TABLES(GRADSYNC_DECLARE)
#undef GRADSYNC_DECLARE

// All of them.
void AddAllTables(const std::vector<Cell>& cells, std::vector<Table>* tables);

// Sentences that say what the rows show, and no more than they carry.
// First what was asked: is the baseline the fastest, by how much, and what does it cost? Of up to four
// baselines one clause each, of more the counts. Then what it would take to decide what is open. One sentence
// with the reason instead where a flag makes times void.
std::vector<std::string> TrainingSentences(const std::vector<Cell>& cells);

// For how long to measure instead, as --time takes it, all launches together, until a difference that is open
// is shown, or shown to be within kEqualWithin, in four of five runs: whole blocks of rounds, if the estimate
// stays where it is and its interval narrows with the root of the rounds.
double SecondsToDecide(const Cell& cell, const Estimate& difference);
// "`--time=5m`", or how many launches where these are the samples.
std::string OptionsToDecide(const Cell& cell, const Estimate& difference);
// Of "core against zero1@gloo with `--time=5m`", one for each that is open; after a few they are counted.
std::string OpenSentence(std::vector<std::string> open);

// Whether it computed what the reference did: "yes", "as its equation", "not checked", "no (1.2e-03)", ...
std::string EqualityOf(const Measurement& measurement);

// Memory of the device at the peak of the timed steps that this variant needs, for each parameter of the
// model; NaN if the buffers of others were there as well, or nobody knows.
double PeakBytesPerParameter(const Measurement& measurement);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FIELDS_H_
