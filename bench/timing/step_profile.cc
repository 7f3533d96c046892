#include "bench/timing/step_profile.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>

#include "absl/strings/str_format.h"
#include "model/base/error.h"
#include "model/base/grid.h"
#include "model/base/text.h"

namespace gradsync::bench {
namespace {

double Sum(const std::vector<int64_t>& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0}));
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

double StepProfile::Row::total_ns() const { return Sum(own_ns); }

StepProfile::Row& StepProfile::RowOf(std::string_view phase, std::string_view name) {
  auto row = std::ranges::find_if(rows_, [&](const Row& r) { return r.phase == phase && r.name == name; });
  if (row == rows_.end()) {
    rows_.push_back({.phase = std::string(phase), .name = std::string(name)});
    row = std::prev(rows_.end());
  }
  row->own_ns.resize(step_ns_.size());  // with zeros for steps that did without it
  return *row;
}

void StepProfile::AddRest(std::string_view phase, std::string_view name, int64_t left_ns) {
  Row& row = RowOf(phase, name);
  ++row.calls;
  row.own_ns.back() += left_ns;
}

void StepProfile::Add(const StepMarks& marks, int64_t optimizer_ns, const std::vector<ComputedOp>& forward,
                      const std::vector<TracedOp>& ranges) {
  step_ns_.push_back(marks.step_ns());
  int64_t forward_left_ns = marks.Between(Mark::kStepBegin, Mark::kForwardEnd);
  int64_t backward_left_ns = marks.Between(Mark::kForwardEnd, Mark::kBackwardEnd);
  for (const ComputedOp& op : forward) {
    // Nothing was recorded before the first one.
    const int64_t begin_ns = op.begin_ns == 0 ? marks[Mark::kStepBegin] : op.begin_ns;
    Row& row = RowOf("forward", op.name);
    ++row.calls;
    row.own_ns.back() += op.end_ns - begin_ns;
    forward_left_ns -= op.end_ns - begin_ns;
    row.flops += op.flops.forward;
    RowOf("backward", op.name).flops += op.flops.backward;
  }
  for (const TracedOp& range : ranges) {
    const bool is_backward = range.begin_ns >= marks[Mark::kForwardEnd];
    const char* const phase = is_backward ? "backward" : "forward";
    const int64_t duration_ns = range.end_ns - range.begin_ns;
    Row& row = RowOf(phase, range.name);
    ++row.calls;
    row.own_ns.back() += duration_ns;
    if (range.parent >= 0) {
      RowOf(phase, ranges[static_cast<size_t>(range.parent)].name).own_ns.back() -= duration_ns;
    } else {
      (is_backward ? backward_left_ns : forward_left_ns) -= duration_ns;
    }
  }
  AddRest("forward", "other", forward_left_ns);
  AddRest("backward", "other", backward_left_ns);
  AddRest("sync", "exposed", marks.Between(Mark::kBackwardEnd, Mark::kStepEnd) - optimizer_ns);
  AddRest("optimizer", optimizer_, optimizer_ns);
}

std::string StepProfile::ToString() const {
  std::vector<Row> rows = rows_;
  std::ranges::stable_sort(rows, std::greater<>(), &Row::total_ns);
  const double steps = static_cast<double>(step_ns_.size());
  double flops = 0;
  Grid grid{.rows = {{"phase", "operation", "calls", "ms", "share", "GFLOP", "GFLOP/s"}}, .num_left = 2};
  for (const Row& row : rows) {
    const double own_ns = row.total_ns();
    flops += row.flops;
    grid.rows.push_back({row.phase, row.name, Fixed(static_cast<double>(row.calls) / steps, 1),
                         Fixed(own_ns / steps / 1e6, 3), Fixed(Percent(own_ns, Sum(step_ns_)), 1) + "%",
                         Fixed(row.flops / steps / 1e9, 3), Fixed(own_ns > 0 ? row.flops / own_ns : 0, 1)});
  }
  std::string table = grid.ToString();
  const double peak_ns = 1e9 * flops / peak_flops_.per_second;
  absl::StrAppendFormat(&table,
                        "At the peak of %.3g GFLOP/s (%s) the arithmetic takes %.3f ms of the step's %.3f ms "
                        "(%.1f%%).\n",
                        peak_flops_.per_second / 1e9, peak_flops_.source, peak_ns / steps / 1e6,
                        Sum(step_ns_) / steps / 1e6, Percent(peak_ns, Sum(step_ns_)));
  return table;
}

void StepProfile::WriteTo(Record& record) const {
  for (const Row& row : rows_) {
    std::vector<int64_t>& samples = record.samples[SampleName::Of(Join(row.phase, ".", row.name, "_ns"))];
    samples = row.own_ns;
    samples.resize(step_ns_.size());
  }
}

}  // namespace gradsync::bench
