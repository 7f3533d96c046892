#ifndef GRADSYNC_TOOLS_TABLES_RUN_COLUMNS_H_
#define GRADSYNC_TOOLS_TABLES_RUN_COLUMNS_H_

#include <string_view>
#include <vector>

#include "tools/records/measurement.h"
#include "tools/tables/table.h"

// Columns that all tables have: what was run, and how often.
namespace gradsync::tools {

// device, dtype, world_size, threads_per_rank, comm_threads, steps, run. People are told once what is the
// same in all rows.
std::vector<Column> RunColumns();
void AppendRunCells(const Measurement& measurement, std::vector<Cell>* cells);

// A number of the configuration; NaN if it has none of that name.
double ConfigNumber(const Measurement& measurement, std::string_view name);

template <class T>
void Append(std::vector<T> more, std::vector<T>* all) {
  for (T& item : more) all->push_back(std::move(item));
}

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_RUN_COLUMNS_H_
