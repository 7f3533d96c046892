#include "bench/timing/peaks.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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
using Clock = std::chrono::steady_clock;

constexpr int kRepetitions = 32;
// Beyond what caches hold, and long beside the start of a kernel.
constexpr int64_t kCpuCopyElements = int64_t{64} << 20, kCudaCopyElements = int64_t{256} << 20;
constexpr int64_t kCudaSide = 8192;

// The CPU's: enough chains to hide the latency of two units (4 or 5 cycles each), few enough for 16
// registers.
constexpr int kChains = 12;
constexpr int64_t kStepsBetweenLooks = 20'000;  // some ten microseconds
constexpr auto kSlice = std::chrono::milliseconds(40);
constexpr int kSlices = 5;

// Multiply-adds of a whole vector in each chain. The results stay near 1. The loop is written out in both
// functions, because a vector is split where the function that names it may not use such registers.
#define GRADSYNC_MULTIPLY_ADD_LOOP                                                                        \
  V chains[kChains];                                                                                      \
  for (int i = 0; i < kChains; ++i) chains[i] = V{} + static_cast<T>(1 + i);                              \
  const V factor = V{} + static_cast<T>(0.5), term = V{} + static_cast<T>(0.5);                           \
  for (int64_t step = 0; step < kStepsBetweenLooks; ++step) {                                             \
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) { chains[i] = chains[i] * factor + term; } \
  }                                                                                                       \
  T sum = 0;                                                                                              \
  for (const V& chain : chains) sum += chain[0];                                                          \
  return sum

template <class T>
[[gnu::noinline]] T Loop256() {
  using V [[gnu::vector_size(32)]] = T;
  GRADSYNC_MULTIPLY_ADD_LOOP;
}

template <class T>
[[gnu::noinline, gnu::target("avx512f")]] T Loop512() {
  using V [[gnu::vector_size(64)]] = T;
  GRADSYNC_MULTIPLY_ADD_LOOP;
}
#undef GRADSYNC_MULTIPLY_ADD_LOOP

// The calling thread's, in one slice of time.
template <class T>
double FlopsOfThread(T (*loop)(), int bytes) {
  volatile T result = 0;
  const Clock::time_point begin = Clock::now();
  int64_t looks = 0;
  Clock::duration elapsed{};
  while (elapsed < kSlice) {
    result = result + loop();
    ++looks;
    elapsed = Clock::now() - begin;
  }
  const double multiply_adds =
      static_cast<double>(looks * kStepsBetweenLooks * kChains) * bytes / static_cast<double>(sizeof(T));
  return 2 * multiply_adds / std::chrono::duration<double>(elapsed).count();
}

template <class T>
double FlopsOfThreads(int num_threads, bool wide) {
  double best = 0;
  for (int slice = 0; slice < kSlices; ++slice) {
    std::vector<double> flops(static_cast<size_t>(num_threads));
    {
      std::vector<std::jthread> threads;
      for (double& of_thread : flops) {
        threads.emplace_back(
            [&] { of_thread = wide ? FlopsOfThread<T>(Loop512<T>, 64) : FlopsOfThread<T>(Loop256<T>, 32); });
      }
    }
    double sum = 0;
    for (const double of_thread : flops) sum += of_thread;
    best = std::max(best, sum);
  }
  return best;
}

// Of several, after one that does not count.
double ShortestSeconds(PhaseTimer& timer, double patience_s, const std::function<void()>& work) {
  work();
  double shortest = 1e300, together = 0;
  for (int i = 0; i < kRepetitions && together < patience_s; ++i) {
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
  Tensor values = Tensor::Empty(device, {side, side}, WideDType(dtype));
  model::FillUniform(values, -1, 1, /*seed=*/0, /*stream=*/0);
  if (dtype == values.dtype()) return values;
  Tensor rounded = Tensor::Empty(device, values.shape(), dtype);
  model::Cast(values, rounded);
  return rounded;
}

Peak MeasureCudaFlops(const DevicePtr& device, DType dtype) {
  constexpr double kPatienceSeconds = 0.2;
  constexpr double kSide = kCudaSide;
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  Peak peak;
  {
    const Var matrix(RandomMatrix(device, kCudaSide, dtype));
    peak.per_second = 2 * kSide * kSide * kSide /
                      ShortestSeconds(*timer, kPatienceSeconds, [&] { model::Linear(matrix, matrix); });
  }
  device->allocator().Trim();
  peak.source = Join("a product of ", Name(dtype), " matrices, side ", kCudaSide);
  return peak;
}

std::string Rate(double per_second, const char* unit) {
  const bool tera = per_second >= 1e12;
  char text[64];
  std::snprintf(text, sizeof text, "%.3g %c%s", per_second / (tera ? 1e12 : 1e9), tera ? 'T' : 'G', unit);
  return text;
}

}  // namespace

Peak MeasureFlops(const DevicePtr& device, DType dtype) {
  if (!device->is_cpu()) return MeasureCudaFlops(device, dtype);
  const bool wide = __builtin_cpu_supports("avx512f");
  const bool f64 = dtype == DType::kF64;
  const int num_threads = device->num_threads();
  return {f64 ? FlopsOfThreads<double>(num_threads, wide) : FlopsOfThreads<float>(num_threads, wide),
          Join("multiply-adds of ", f64 ? "f64" : "f32", " in registers, ", wide ? "AVX-512" : "AVX2")};
}

Peak MeasureBandwidth(const DevicePtr& device) {
  constexpr double kPatienceSeconds = 0.5;
  const int64_t elements = device->is_cpu() ? kCpuCopyElements : kCudaCopyElements;
  const std::unique_ptr<PhaseTimer> timer = MakePhaseTimer(*device);
  Peak peak;
  {
    const Tensor source = Tensor::Zeros(device, {elements}, DType::kF32);
    const Tensor target = Tensor::Zeros(device, {elements}, DType::kF32);
    const double copy_s = ShortestSeconds(*timer, kPatienceSeconds, [&] { target.CopyFrom(source); });
    const double scaled_s = ShortestSeconds(*timer, kPatienceSeconds, [&] { model::Scale(Var(source), 2); });
    peak.per_second = 2 * static_cast<double>(source.nbytes()) / std::min(copy_s, scaled_s);
    peak.source = Join(scaled_s < copy_s ? "a scaled copy of " : "a copy of ", source.nbytes() >> 20, " MiB");
  }
  device->allocator().Trim();
  return peak;
}

std::string ToString(const KnownPeaks& peaks) {
  return Join(Rate(peaks.peaks.flops_per_second, "FLOP/s"), " (", peaks.flops_source, ") and ",
              Rate(peaks.peaks.bytes_per_second, "B/s"), " (", peaks.bytes_source, ")");
}

}  // namespace gradsync::bench
