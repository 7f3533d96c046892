#include "tools/tables/views.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_format.h"

namespace gradsync::tools {
double NumCollectives(const View& view) {
  const bool is_told = !view.measured().is_published() && view.measured().Find("comm_busy_ns") != nullptr;
  return is_told ? static_cast<double>(view.measured().record.buckets.size()) : kNaN;
}

std::vector<Cell> TrainingOf(const std::vector<Cell>& cells) {
  std::vector<Cell> training;
  std::ranges::copy_if(cells, std::back_inserter(training),
                       [](const Cell& cell) { return !cell.any().strategy().empty(); });
  return training;
}

std::vector<Field<View>> RunFields(int section) {
  std::vector<Field<View>> fields = {
      {{.name = "device", .kind = Kind::kText}, Text("device")},
      {{.name = "dtype", .kind = Kind::kText}, Text("dtype")},
      {{.name = "world_size", .kind = Kind::kInteger},
       [](const View& view) { return view.measured().world_size(); }},
      {{.name = "threads_per_rank", .kind = Kind::kInteger}, Number("threads_per_rank")},
      {{.name = "comm_threads", .kind = Kind::kInteger}, Number("comm_threads")},
      // Published figures may not say how many steps there were.
      {{.name = "steps", .kind = Kind::kInteger},
       [](const View& view) {
         return view.measured().num_steps == 0 ? kNaN : static_cast<double>(view.measured().num_steps);
       }},
      {{.name = "launches", .kind = Kind::kInteger},
       [](const View& view) {
         return view.measured().is_published() ? kNaN : static_cast<double>(view.measured().launches.size());
       }},
      {{.name = "run", .kind = Kind::kText}, [](const View& view) { return view.measured().record.run_id; }},
  };
  for (Field<View>& field : fields) {
    field.column.said_once = true;
    field.column.section = section;
  }
  return fields;
}

std::string EqualityOf(const Measurement& measurement) {
  if (measurement.is_floor()) return "floor: no sync";
  const std::string reference = measurement.record.checks.StringOr("reference", "none");
  if (reference == "none" || !measurement.equal()) return "not checked";
  // PyTorch rounds otherwise, and more where it sends bf16.
  const double tolerance = measurement.record.checks.DoubleOr("tolerance", 0);
  if (*measurement.equal() && measurement.is_peer() && tolerance > 1e-3)
    return absl::StrFormat("within %.2g", tolerance);
  if (*measurement.equal()) return reference == "equation" ? "as its equation" : "yes";
  if (!measurement.grads_equal.value_or(true)) {
    return absl::StrFormat("no (%.1e)", measurement.grad_rel_error.value_or(kNaN));
  }
  if (!measurement.params_equal.value_or(true)) {
    return absl::StrFormat("no (parameters %.1e)", measurement.param_rel_error.value_or(kNaN));
  }
  return "no (replicas differ)";
}

double PeakBytesPerParameter(const Measurement& measurement) {
  const bench::FactFields& facts = measurement.record.facts;
  return facts.DoubleOr("peak_bytes_in_use", kNaN) / facts.DoubleOr("num_parameters", kNaN);
}

}  // namespace gradsync::tools
