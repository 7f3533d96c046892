#include "bench/training/summary.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "bench/records/strategy_name.h"
#include "bench/records/units.h"

namespace gradsync::bench {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double Mean(const std::vector<int64_t>& values) {
  if (values.empty()) return kNaN;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string TextOf(double ns) {
  if (std::isnan(ns)) return "-";
  return (ns < 0 ? "-" : "") + ApproximateDuration(std::abs(ns));
}

}  // namespace

std::string VerdictWord(const Fields& checks, bool drifts) {
  if (checks.Find("grads_equal") == nullptr) return "not checked";
  const bool equal = std::ranges::all_of(std::vector{"grads_equal", "params_equal", "replicas_equal"},
                                         [&](const char* name) { return checks.BoolOr(name, false); });
  return equal ? "equal" : drifts ? "replicas drift" : "WRONG";
}

StepTimes TimesForSummary(const Record& record) {
  const auto sum = [&](const char* name) {
    std::vector<int64_t> times = record.samples.at("forward_ns");
    const auto found = record.samples.find(name);
    if (found == record.samples.end()) return std::vector<int64_t>();
    std::ranges::transform(times, found->second, times.begin(), std::plus<>());
    return times;
  };
  return {record.samples.at("step_ns"), sum("backward_and_sync_ns"), sum("backward_ns")};
}

void Summary::Add(const Case& the_case, const VariantSpec& variant, const StepTimes& times) {
  rows_.push_back({.labels = the_case.labels,
                   .variant = variant.name,
                   .step_ns = Mean(times[0]),
                   .synced_ns = Mean(times[1]),
                   .computed_ns = Mean(times[2])});
}

std::vector<std::string> Summary::CellsOf(const Row& row) const {
  const auto floor = std::ranges::find_if(rows_, [&](const Row& other) {
    return other.labels == row.labels && other.variant == FloorOf(row.variant);
  });
  const bool has_floor = floor != rows_.end() && !IsFloor(row.variant);
  const double cost_ns = has_floor ? row.step_ns - floor->step_ns : kNaN;
  const double tax_ns = has_floor ? row.computed_ns - floor->computed_ns : kNaN;
  const double exposed_ns = row.synced_ns - row.computed_ns;
  std::vector<std::string> cells;
  for (const auto& [name, value] : row.labels) cells.push_back(value);
  cells.insert(cells.end(), {row.variant, TextOf(row.step_ns), TextOf(cost_ns), TextOf(exposed_ns),
                             TextOf(tax_ns), TextOf(cost_ns - exposed_ns - tax_ns), row.verdict});
  return cells;
}

std::string Summary::ToString() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : rows_.front().labels) names.push_back(name);
  const size_t num_labels = names.size();
  names.insert(names.end(), {"strategy", "step", "cost", "exposed", "tax", "rest", "check"});
  std::vector<std::vector<std::string>> lines = {names};
  for (const Row& row : rows_) lines.push_back(CellsOf(row));
  const auto width = [&](size_t column, size_t least) {
    for (const auto& line : lines) least = std::max(least, line[column].size());
    return static_cast<int>(least);
  };
  std::ostringstream text;
  for (const auto& line : lines) {
    size_t i = 0;
    for (; i < num_labels; ++i) text << std::setw(width(i, 0)) << line[i] << " ";
    text << " " << std::left << std::setw(width(i, 16)) << line[i] << std::right;
    while (++i + 1 < line.size()) text << " " << std::setw(9) << line[i];
    text << "  " << line[i] << "\n";
  }
  return text.str();
}

}  // namespace gradsync::bench
