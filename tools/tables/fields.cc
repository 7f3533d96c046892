#include "tools/tables/fields.h"

#include <limits>

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double ConfigNumber(const Measurement& measurement, std::string_view name) {
  return measurement.record.config.DoubleOr(name, kNaN);
}

double MeanOf(const Measurement& measurement, std::string_view samples) {
  const Series* series = measurement.Find(samples);
  return series == nullptr ? kNaN : series->mean();
}

std::vector<Field<Measured>> RunFields() {
  return {
      {{.name = "device", .kind = Kind::kText, .said_once = true}, Text("device")},
      {{.name = "dtype", .kind = Kind::kText, .said_once = true}, Text("dtype")},
      {{.name = "world_size", .kind = Kind::kInteger, .said_once = true},
       [](const Measured& row) { return row.own.world_size(); }},
      {{.name = "threads_per_rank", .kind = Kind::kInteger, .said_once = true}, Number("threads_per_rank")},
      {{.name = "comm_threads", .kind = Kind::kInteger, .said_once = true}, Number("comm_threads")},
      // Of published figures it may not be known.
      {{.name = "steps", .kind = Kind::kInteger, .said_once = true},
       [](const Measured& row) {
         return row.own.num_steps == 0 ? kNaN : static_cast<double>(row.own.num_steps);
       }},
      {{.name = "launches", .kind = Kind::kInteger, .said_once = true},
       [](const Measured& row) {
         return row.own.is_published() ? kNaN : static_cast<double>(row.own.launches.size());
       }},
      {{.name = "run", .kind = Kind::kText, .said_once = true},
       [](const Measured& row) { return row.own.record.run_id; }},
  };
}

}  // namespace gradsync::tools
