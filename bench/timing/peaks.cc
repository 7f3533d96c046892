#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bench/timing/phase_timer.h"
#include "bench/timing/step_profile.h"
#include "model/base/error.h"
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

}  // namespace gradsync::bench
