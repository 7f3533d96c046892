#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "bench/timing/phase_timer.h"
#include "bench/timing/step_profile.h"
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
constexpr double kPatienceSeconds = 0.2;
// Long beside the start of a kernel.
constexpr int64_t kCpuSide = 1024, kCudaSide = 8192;

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
Tensor RandomMatrix(const DevicePtr& device, int64_t side, DType dtype) {
  Tensor values = Tensor::Empty(device, {side, side}, WideDType(dtype));
  model::FillUniform(values, -1, 1, /*seed=*/0, /*stream=*/0);
  if (dtype == values.dtype()) return values;
  Tensor rounded = Tensor::Empty(device, values.shape(), dtype);
  model::Cast(values, rounded);
  return rounded;
}

}  // namespace

Peak MeasureFlops(const DevicePtr& device, DType dtype) {
  const int64_t side = device->is_cpu() ? kCpuSide : kCudaSide;
  if (device->is_cpu()) dtype = WideDType(dtype);
  double seconds = 0;
  {
    const Var matrix(RandomMatrix(device, side, dtype));
    seconds = ShortestSeconds(device, [&] { model::Linear(matrix, matrix); });
  }
  device->allocator().Trim();
  return {2 * static_cast<double>(side * side * side) / seconds,
          Join("a product of ", Name(dtype), " matrices, side ", side)};
}

}  // namespace gradsync::bench
