#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tools/tables/parts/table.h"

// A table of results is defined by a list of Fields: columns with their names, and with the functions that
// compute their values.
namespace gradsync::tools {

template <class T>
void Append(std::vector<T> more, std::vector<T>* all) {
  all->insert(all->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// A column, and the function that computes its value in a row of the table. Each row of the table is about
// one object of type Subject, such as a View.
template <class Subject>
struct Field {
  using Value = std::variant<double, std::string, Warnings, Estimate>;
  template <class Function>
  using Result = std::decay_t<std::invoke_result_t<Function, const Subject&>>;

  // `value_of` computes the column's value from a Subject: it is a function, or a pointer to a member of
  // Subject. If `value_of` returns an integer, Column::kind becomes kInteger. If `value_of` returns a
  // std::string or Warnings, Column::kind becomes kText. If `value_of` returns an Estimate, CSV and the
  // member "tables" of JSON have three columns, such as "delta (%)", "delta_low (%)" and "delta_high (%)";
  // people see one column.
  template <class Function>
  Field(Column shown, Function value_of)
      : column(std::move(shown)), value([value_of = std::move(value_of)](const Subject& subject) -> Value {
          if constexpr (std::is_arithmetic_v<Result<Function>>) {
            return static_cast<double>(std::invoke(value_of, subject));
          } else {
            return std::invoke(value_of, subject);
          }
        }) {
    column.has_interval = std::is_same_v<Result<Function>, Estimate>;
    if (std::is_integral_v<Result<Function>>) column.kind = Kind::kInteger;
    const bool is_text = std::is_convertible_v<Result<Function>, std::string>;
    if (is_text || std::is_same_v<Result<Function>, Warnings>) column.kind = Kind::kText;
  }

  Column column;
  std::function<Value(const Subject&)> value;
};

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
      const auto add = [&cells]<class Held>(const Held& held) {
        if constexpr (std::is_same_v<Held, Estimate>) {
          Append<TableCell>({held.value, held.interval.low, held.interval.high}, &cells);
        } else {
          cells.emplace_back(held);
        }
      };
      std::visit(add, field.value(subject));
    }
    return cells;
  }

  static std::vector<Column> ColumnsOf(const std::vector<Field<Subject>>& fields) {
    std::vector<Column> columns;
    for (const Field<Subject>& field : fields) {
      columns.push_back(field.column);
      if (!field.column.has_interval) continue;
      // "_low" or "_high" is inserted before the unit: "delta_low (%)".
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

}  // namespace gradsync::tools
