#include "bench/timing/step_profile.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <span>

#include "absl/strings/str_format.h"
#include "model/base/error.h"
#include "model/base/grid.h"
#include "model/base/text.h"
#include "model/functions.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::DevicePtr;
using model::DType;
using model::Tensor;
using model::Var;

// The entry of waits. Records have kept its first name.
constexpr struct { const char *phase, *name, *in_records; } kWaits{"sync", "waits", "sync.exposed_ns"};

constexpr int kRepetitions = 32;
constexpr double kPatienceSeconds = 0.1;

// A product (rows, inner) (inner, cols).
struct Product {
  int64_t rows, cols, inner;
};
// Long beside the start of a kernel; on CPUs also such as in transformers, and none whose rows lie a power of
// two apart, where caches hold less.
constexpr Product kOnCpu[] = {{256, 768, 768}, {512, 3072, 768}, {512, 768, 3072}, {1040, 1040, 1040}};
constexpr Product kOnCuda[] = {{8192, 8192, 8192}, {16384, 4096, 4096}};

// The shortest of several runs of `work`, after one that does not count.
double ShortestSeconds(const DevicePtr& device, const std::function<void()>& work) {
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  work();
  double shortest = 1e300, together = 0;
  for (int i = 0; i < kRepetitions && together < kPatienceSeconds; ++i) {
    timer->Take(Mark::kStepBegin);
    work();
    timer->Take(Mark::kStepEnd);
    const double seconds = 1e-9 * static_cast<double>(timer->Read().step_ns());
    shortest = std::min(shortest, seconds);
    together += seconds;
  }
  return shortest;
}

// Random, because zeros take less power, and a GPU that has power to spare runs faster.
Tensor RandomMatrix(const DevicePtr& device, model::Shape shape, DType dtype) {
  Tensor values = Tensor::Empty(device, std::move(shape), WideDType(dtype));
  model::FillUniform(values, -1, 1, /*seed=*/0, model::StreamOf(model::Purpose::kPeak, 0));
  if (dtype == values.dtype()) return values;
  Tensor rounded = Tensor::Empty(device, values.shape(), dtype);
  model::Cast(values, rounded);
  return rounded;
}

double Sum(const std::vector<int64_t>& values) {
  return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0}));
}

double Percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

Peak MeasureFlops(const DevicePtr& device, DType dtype) {
  // Not all of a step is computed in bf16, and not all processors have instructions for it.
  std::vector<DType> dtypes = {dtype};
  if (device->is_cpu() && dtype != WideDType(dtype)) dtypes.push_back(WideDType(dtype));
  Peak best;
  for (const DType of : dtypes) {
    for (const auto& [rows, cols, inner] : device->is_cpu() ? std::span<const Product>(kOnCpu) : kOnCuda) {
      const Var x(RandomMatrix(device, {rows, inner}, of)), weights(RandomMatrix(device, {cols, inner}, of));
      const double seconds = ShortestSeconds(device, [&] { model::Linear(x, weights); });
      const double per_second = 2 * static_cast<double>(rows * cols * inner) / seconds;
      if (per_second < best.per_second) continue;
      best = {per_second,
              Join("the best of several products: ", Name(of), ", ", rows, " x ", inner, " x ", cols)};
    }
  }
  device->allocator().Trim();
  return best;
}

double StepProfile::Entry::total_ns() const { return Sum(own_ns); }

StepProfile::Entry& StepProfile::EntryOf(std::string_view phase, std::string_view name) {
  auto entry =
      std::ranges::find_if(entries_, [&](const Entry& r) { return r.phase == phase && r.name == name; });
  if (entry == entries_.end()) {
    entries_.push_back({.phase = std::string(phase), .name = std::string(name)});
    entry = std::prev(entries_.end());
  }
  entry->own_ns.resize(step_ns_.size());  // with zeros for steps without this operation
  return *entry;
}

void StepProfile::AddRest(std::string_view phase, std::string_view name, int64_t left_ns) {
  Entry& entry = EntryOf(phase, name);
  ++entry.calls;
  entry.own_ns.back() += left_ns;
}

void StepProfile::Add(const StepMarks& marks, const StepTimes& times, std::span<const StepWait> waits,
                      const std::vector<ComputedOp>& forward, const std::vector<TracedOp>& ranges) {
  step_ns_.push_back(marks.step_ns());
  int64_t forward_left_ns = times.begin_step.value_or(0) + *times.forward;
  int64_t backward_left_ns = *times.backward + times.hooks.value_or(0);
  for (const ComputedOp& op : forward) {
    // Nothing was recorded before the first operation.
    const int64_t begin_ns = op.begin_ns == 0 ? marks[Mark::kStepBegin] : op.begin_ns;
    const int64_t computed_ns = WithoutWaitsNs(begin_ns, op.end_ns, waits);
    Entry& entry = EntryOf("forward", op.name);
    ++entry.calls;
    entry.own_ns.back() += computed_ns;
    forward_left_ns -= computed_ns;
    entry.flops += op.flops.forward;
    EntryOf("backward", op.name).flops += op.flops.backward;
  }
  for (const TracedOp& range : ranges) {
    const bool is_backward = range.begin_ns >= marks[Mark::kForwardEnd];
    const char* const phase = is_backward ? "backward" : "forward";
    const int64_t computed_ns = WithoutWaitsNs(range.begin_ns, range.end_ns, waits);
    Entry& entry = EntryOf(phase, range.name);
    ++entry.calls;
    entry.own_ns.back() += computed_ns;
    if (range.parent >= 0) {
      EntryOf(phase, ranges[static_cast<size_t>(range.parent)].name).own_ns.back() -= computed_ns;
    } else {
      (is_backward ? backward_left_ns : forward_left_ns) -= computed_ns;
    }
  }
  AddRest("forward", "other", forward_left_ns);
  AddRest("backward", "other", backward_left_ns);
  AddRest(kWaits.phase, kWaits.name, *times.waits());
  AddRest("optimizer", optimizer_, *times.optimizer);
}

std::string StepProfile::ToString() const {
  std::vector<Entry> entries = entries_;
  std::ranges::stable_sort(entries, std::greater<>(), &Entry::total_ns);
  const double steps = static_cast<double>(step_ns_.size());
  double flops = 0;
  Grid grid{.rows = {{"phase", "operation", "calls", "ms", "share", "GFLOP", "GFLOP/s"}}, .num_left = 2};
  for (const Entry& entry : entries) {
    const double own_ns = entry.total_ns();
    flops += entry.flops;
    grid.rows.push_back({entry.phase, entry.name, Fixed(static_cast<double>(entry.calls) / steps, 1),
                         Fixed(own_ns / steps / 1e6, 3), Fixed(Percent(own_ns, Sum(step_ns_)), 1) + "%",
                         Fixed(entry.flops / steps / 1e9, 3),
                         Fixed(own_ns > 0 ? entry.flops / own_ns : 0, 1)});
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
  for (const Entry& entry : entries_) {
    const bool is_waits = entry.phase == kWaits.phase && entry.name == kWaits.name;
    const std::string name = is_waits ? kWaits.in_records : Join(entry.phase, ".", entry.name, "_ns");
    std::vector<int64_t>& samples = record.samples[SampleName::Of(name)];
    samples = entry.own_ns;
    samples.resize(step_ns_.size());
  }
}

}  // namespace gradsync::bench
