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

// A matrix product (rows, inner) (inner, cols).
struct Product {
  int64_t rows, cols, inner;
};
// The products take much longer than the launch of a kernel. For CPUs, some have the shapes of transformers,
// and none has rows whose stride is a power of two, because caches would hold less of them.
constexpr Product kOnCpu[] = {{256, 768, 768}, {512, 3072, 768}, {512, 768, 3072}, {1040, 1040, 1040}};
constexpr Product kOnCuda[] = {{8192, 8192, 8192}, {16384, 4096, 4096}};

// Returns the shortest time of several runs of `work`, after an untimed run.
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

// Returns a random matrix, because zeros need less power, and a GPU runs faster if it needs less power.
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
  // A part of a step is computed in f32, and not all processors have instructions for bf16.
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
