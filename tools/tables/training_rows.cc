#include "tools/tables/training_rows.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "model/error.h"
#include "tools/records/validity.h"
#include "tools/tables/fields.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Nothing of its communication is hidden behind backward. Other programs' strategies have a prefix.
bool WaitsForAll(std::string_view strategy) {
  strategy = EagerName(strategy);
  return strategy.ends_with("naive") || strategy.ends_with("flat") || strategy == "bucketed_sync";
}

}  // namespace

std::string EqualityOf(const Measurement& measurement) {
  if (measurement.is_floor()) return "floor: no sync";
  const std::string reference = measurement.record.checks.StringOr("reference", "none");
  if (reference == "none" || !measurement.equal()) return "not checked";
  if (*measurement.equal()) return "yes";
  const auto error_text = [](const char* format, const std::optional<double>& error) {
    char text[64];
    std::snprintf(text, sizeof text, format, error.value_or(kNaN));
    return std::string(text);
  };
  if (!measurement.grads_equal.value_or(true)) return error_text("no (%.1e)", measurement.grad_rel_error);
  if (!measurement.params_equal.value_or(true))
    return error_text("no (parameters %.1e)", measurement.param_rel_error);
  return "no (replicas differ)";
}

double BusBandwidthOf(const Measurement& measurement) {
  const double told_bytes = SentBytes(measurement);
  const double sent_bytes =
      told_bytes > 0 ? told_bytes : measurement.record.facts.DoubleOr("gradient_bytes", kNaN);
  const double busy_s = MeanOf(measurement, "comm_busy_ns");
  const bool is_exposed = WaitsForAll(measurement.strategy());
  const double seconds = busy_s > 0 ? busy_s : is_exposed ? MeanOf(measurement, "sync_exposed_ns") : kNaN;
  return measurement.is_floor() ? kNaN : BusBandwidth(sent_bytes, seconds, measurement.world_size());
}

double PeakBytesPerParameter(const Measurement& measurement) {
  const bench::Fields& facts = measurement.record.facts;
  if (facts.IntOr("strategies_in_memory", 0) != 1) return kNaN;
  return facts.DoubleOr("peak_bytes_in_use", kNaN) / facts.DoubleOr("num_parameters", kNaN);
}

double NumCollectives(const Measurement& measurement) {
  const bool is_told = !measurement.is_published() && measurement.Find("comm_busy_ns") != nullptr;
  return is_told ? static_cast<double>(measurement.record.buckets.size()) : kNaN;
}

double SentBytes(const Measurement& measurement) {
  if (std::isnan(NumCollectives(measurement))) return kNaN;
  double bytes = 0;
  for (const bench::BucketRecord& bucket : measurement.record.buckets)
    bytes += static_cast<double>(bucket.bytes);
  return bytes;
}

double FlopsPerSecond(const Measurement& measurement) {
  const double flops_of_rank = measurement.record.facts.DoubleOr("flops_per_step", kNaN);
  return flops_of_rank * static_cast<double>(measurement.world_size()) / MeanOf(measurement, "step_ns");
}

}  // namespace gradsync::tools
