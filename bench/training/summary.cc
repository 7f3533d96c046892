#include "bench/training/summary.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <utility>

#include "bench/records/units.h"
#include "model/tensor.h"

namespace gradsync::bench {

std::string VerdictWord(const Fields& checks, bool drifts) {
  if (checks.Find("grads_equal") == nullptr) return "not checked";
  const bool equal = std::ranges::all_of(std::vector{"grads_equal", "params_equal", "replicas_equal"},
                                         [&](const char* name) { return checks.BoolOr(name, false); });
  return equal ? "equal" : drifts ? "replicas drift" : "WRONG";
}

std::vector<int64_t> MaxOverRanks(const std::vector<int64_t>& numbers, comm::ProcessGroup& group,
                                  const model::DevicePtr& device) {
  const auto tensor = model::Tensor::From<int64_t>(device, {static_cast<int64_t>(numbers.size())}, numbers);
  group.AllReduce(tensor, comm::ReduceOp::kMax).Wait();
  return tensor.ToVector<int64_t>();
}

void Summary::Add(const Cell& cell, const Variant& variant, const std::vector<int64_t>& steps_ns) {
  const double sum_ns = std::accumulate(steps_ns.begin(), steps_ns.end(), 0.0);
  rows_.push_back({.labels = cell.labels,
                   .variant = variant.name(),
                   .strategy = variant.strategy,
                   .floor = variant.floor,
                   .step_ns = sum_ns / static_cast<double>(steps_ns.size())});
}

std::vector<std::string> Summary::CellsOf(const Row& row) const {
  const auto floor = std::ranges::find_if(
      rows_, [&](const Row& other) { return other.labels == row.labels && other.strategy == row.floor; });
  const double cost_ns = floor == rows_.end() ? 0 : row.step_ns - floor->step_ns;
  const bool has_cost = floor != rows_.end() && row.strategy != row.floor;
  std::vector<std::string> cells;
  for (const auto& [name, value] : row.labels) cells.push_back(value);
  cells.insert(
      cells.end(),
      {row.variant, ApproximateDuration(row.step_ns),
       has_cost ? (cost_ns < 0 ? "-" : "") + ApproximateDuration(std::abs(cost_ns)) : "-", row.verdict});
  return cells;
}

std::string Summary::ToString() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : rows_.front().labels) names.push_back(name);
  const size_t num_labels = names.size();
  names.insert(names.end(), {"variant", "step", "cost", "check"});
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
