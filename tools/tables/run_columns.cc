#include "tools/tables/run_columns.h"

#include <limits>

namespace gradsync::tools {

std::vector<Column> RunColumns() {
  return {
      {.name = "device", .kind = Kind::kText, .said_once = true},
      {.name = "dtype", .kind = Kind::kText, .said_once = true},
      {.name = "world_size", .kind = Kind::kInteger, .said_once = true},
      {.name = "threads_per_rank", .kind = Kind::kInteger, .said_once = true},
      {.name = "comm_threads", .kind = Kind::kInteger, .said_once = true},
      {.name = "steps", .kind = Kind::kInteger, .said_once = true},
      {.name = "run", .kind = Kind::kText, .said_once = true},
  };
}

void AppendRunCells(const Measurement& measurement, std::vector<Cell>* cells) {
  const bench::Record& record = measurement.record;
  cells->emplace_back(record.config.StringOr("device", ""));
  cells->emplace_back(record.config.StringOr("dtype", ""));
  cells->emplace_back(static_cast<double>(record.world_size));
  cells->emplace_back(ConfigNumber(measurement, "threads_per_rank"));
  cells->emplace_back(ConfigNumber(measurement, "comm_threads"));
  // Of published figures it may not be known.
  cells->emplace_back(measurement.num_steps == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                 : static_cast<double>(measurement.num_steps));
  cells->emplace_back(record.run_id);
}

double ConfigNumber(const Measurement& measurement, std::string_view name) {
  return measurement.record.config.DoubleOr(name, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace gradsync::tools
