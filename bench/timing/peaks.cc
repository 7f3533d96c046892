#include "bench/timing/peaks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/strings/str_format.h"
#include "bench/timing/phase_timer.h"
#include "model/error.h"
#include "model/functions.h"
#include "model/random.h"
#include "model/tensor.h"
#include "model/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::DevicePtr;
using model::DType;
using model::Tensor;
using model::Var;

constexpr int kRepetitions = 32;
// Beyond what caches hold, and long beside the start of a kernel.
constexpr int64_t kCpuCopyElements = int64_t{64} << 20, kCudaCopyElements = int64_t{256} << 20;
constexpr int64_t kCpuSide = 1024, kCudaSide = 8192;

// Of several, after one that does not count.
double ShortestSeconds(const DevicePtr& device, double patience_s, const std::function<void()>& work) {
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  work();
  double shortest = 1e300, together = 0;
  for (int i = 0; i < kRepetitions && together < patience_s; ++i) {
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
Tensor RandomMatrix(const DevicePtr& device, int64_t side, DType dtype) {
  Tensor values = Tensor::Empty(device, {side, side}, WideDType(dtype));
  model::FillUniform(values, -1, 1, /*seed=*/0, /*stream=*/0);
  if (dtype == values.dtype()) return values;
  Tensor rounded = Tensor::Empty(device, values.shape(), dtype);
  model::Cast(values, rounded);
  return rounded;
}

std::string Rate(double per_second, const char* unit) {
  const bool tera = per_second >= 1e12;
  return absl::StrFormat("%.3g %s%s", per_second / (tera ? 1e12 : 1e9), tera ? "T" : "G", unit);
}

}  // namespace

Peak MeasureFlops(const DevicePtr& device, DType dtype) {
  constexpr double kPatienceSeconds = 0.2;
  const int64_t side = device->is_cpu() ? kCpuSide : kCudaSide;
  if (device->is_cpu()) dtype = WideDType(dtype);
  Peak peak;
  {
    const Var matrix(RandomMatrix(device, side, dtype));
    const double seconds = ShortestSeconds(device, kPatienceSeconds, [&] { model::Linear(matrix, matrix); });
    peak.per_second = 2 * static_cast<double>(side * side * side) / seconds;
    peak.source = Join("a product of ", Name(dtype), " matrices, side ", side);
  }
  device->allocator().Trim();
  return peak;
}

Peak MeasureBandwidth(const DevicePtr& device) {
  constexpr double kPatienceSeconds = 0.5;
  const int64_t elements = device->is_cpu() ? kCpuCopyElements : kCudaCopyElements;
  Peak peak;
  {
    const Tensor source = Tensor::Zeros(device, {elements}, DType::kF32);
    const Tensor target = Tensor::Zeros(device, {elements}, DType::kF32);
    const double copy_s = ShortestSeconds(device, kPatienceSeconds, [&] { target.CopyFrom(source); });
    const double scaled_s = ShortestSeconds(device, kPatienceSeconds, [&] { model::Scale(Var(source), 2); });
    peak.per_second = 2 * static_cast<double>(source.nbytes()) / std::min(copy_s, scaled_s);
    peak.source = Join(scaled_s < copy_s ? "a scaled copy of " : "a copy of ", source.nbytes() >> 20, " MiB");
  }
  device->allocator().Trim();
  return peak;
}

double LimitNs(const OpCost& cost, const Peaks& peaks) {
  return 1e9 * std::max(cost.flops / peaks.flops.per_second, cost.bytes / peaks.bandwidth.per_second);
}

std::string ToString(const Peaks& peaks) {
  return Join(Rate(peaks.flops.per_second, "FLOP/s"), " (", peaks.flops.source, ") and ",
              Rate(peaks.bandwidth.per_second, "B/s"), " (", peaks.bandwidth.source, ")");
}

}  // namespace gradsync::bench
