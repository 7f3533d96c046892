#include "bench/timing/peaks.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

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
constexpr double kPatienceSeconds = 0.5;

struct Sizes {
  int64_t side;           // of the matrices
  int64_t copy_elements;  // in f32
};
// Beyond what caches hold, and long beside the start of a kernel.
constexpr Sizes kCpuSizes{.side = 1024, .copy_elements = int64_t{64} << 20};
constexpr Sizes kCudaSizes{.side = 8192, .copy_elements = int64_t{256} << 20};

// Of several, after one that does not count.
double ShortestSeconds(PhaseTimer& timer, const std::function<void()>& work) {
  work();
  double shortest = 1e300, together = 0;
  for (int i = 0; i < kRepetitions && together < kPatienceSeconds; ++i) {
    timer.Take(Mark::kStepBegin);
    work();
    timer.Take(Mark::kStepEnd);
    const double seconds = 1e-9 * static_cast<double>(timer.Read().step_ns());
    shortest = std::min(shortest, seconds);
    together += seconds;
  }
  return shortest;
}

// Random, because zeros take less power, and a GPU that has power to spare runs faster.
Tensor RandomMatrix(const DevicePtr& device, int64_t side, DType dtype) {
  const Tensor values = Tensor::Empty(device, {side, side}, WideDType(dtype));
  model::FillUniform(values, -1, 1, /*seed=*/0, /*stream=*/0);
  if (dtype == values.dtype()) return values;
  const Tensor rounded = Tensor::Empty(device, values.shape(), dtype);
  model::Cast(values, rounded);
  return rounded;
}

std::string Rate(double per_second, const char* unit) {
  const bool tera = per_second >= 1e12;
  char text[64];
  std::snprintf(text, sizeof text, "%.3g %c%s", per_second / (tera ? 1e12 : 1e9), tera ? 'T' : 'G', unit);
  return text;
}

}  // namespace

KnownPeaks MeasurePeaks(const DevicePtr& device, DType dtype) {
  const Sizes sizes = device->is_cpu() ? kCpuSizes : kCudaSizes;
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  KnownPeaks known;
  {
    const Var matrix(RandomMatrix(device, sizes.side, dtype));
    const double side = static_cast<double>(sizes.side);
    known.peaks.flops_per_second =
        2 * side * side * side / ShortestSeconds(*timer, [&] { model::Linear(matrix, matrix); });
    known.flops_source = Join("a product of ", Name(dtype), " matrices, side ", sizes.side);
  }
  device->allocator().Trim();
  {
    const Tensor source = Tensor::Zeros(device, {sizes.copy_elements}, DType::kF32);
    const Tensor target = Tensor::Zeros(device, {sizes.copy_elements}, DType::kF32);
    const double copy_s = ShortestSeconds(*timer, [&] { target.CopyFrom(source); });
    const double scaled_s = ShortestSeconds(*timer, [&] { model::Scale(Var(source), 2); });
    known.peaks.bytes_per_second = 2 * static_cast<double>(source.nbytes()) / std::min(copy_s, scaled_s);
    known.bytes_source =
        Join(scaled_s < copy_s ? "a scaled copy of " : "a copy of ", source.nbytes() >> 20, " MiB");
  }
  device->allocator().Trim();
  return known;
}

std::string ToString(const KnownPeaks& peaks) {
  return Join(Rate(peaks.peaks.flops_per_second, "FLOP/s"), " (", peaks.flops_source, ") and ",
              Rate(peaks.peaks.bytes_per_second, "B/s"), " (", peaks.bytes_source, ")");
}

}  // namespace gradsync::bench
