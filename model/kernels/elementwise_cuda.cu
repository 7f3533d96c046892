// Elementwise operations: loops that stride by the whole grid.

#include "model/kernels/cuda_support.h"
#include "model/kernels/elementwise.h"

namespace gradsync::model::kernels::cuda {
namespace {

template <class T>
__global__ void SumKernel(const T* a, const T* b, int64_t n, T* y) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    y[i] = Narrow<T>(Widen(a[i]) + Widen(b[i]));
  }
}

template <class T>
__global__ void ScaledKernel(const T* x, Wide<T> factor, int64_t n, T* y, bool accumulate) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    Store(y + i, Widen(x[i]) * factor, accumulate);
  }
}

template <class T>
__global__ void FillKernel(Wide<T> value, int64_t n, T* y) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) y[i] = Narrow<T>(value);
}

__global__ void RoundKernel(const float* x, int64_t n, BF16* y) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) y[i] = Narrow<BF16>(x[i]);
}

__global__ void WidenedKernel(const BF16* x, int64_t n, float* y, bool accumulate) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) Store(y + i, Widen(x[i]), accumulate);
}

template <class T>
__global__ void SwiGluKernel(const T* gate, const T* up, int64_t n, T* y) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    const Wide<T> g = Widen(gate[i]);
    y[i] = Narrow<T>(g / (Wide<T>{1} + exp(-g)) * Widen(up[i]));
  }
}

template <class T>
__global__ void SwiGluGradKernel(const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                                 Target<T> dup) {
  using W = Wide<T>;
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    const W g = Widen(gate[i]), out_grad = Widen(dy[i]);
    const W s = W{1} / (W{1} + exp(-g));
    if (dup.data != nullptr) Store(dup.data + i, out_grad * g * s, dup.accumulate);
    if (dgate.data != nullptr) {
      Store(dgate.data + i, out_grad * Widen(up[i]) * s * (W{1} + g * (W{1} - s)), dgate.accumulate);
    }
  }
}

}  // namespace

template <class T>
void Sum(const Device& device, const T* a, const T* b, int64_t n, T* y) {
  Launch(device, "Sum", SumKernel<T>, LoopBlocks(device, n), kThreads, 0, a, b, n, y);
}

template <class T>
void Scaled(const Device& device, const T* x, double factor, int64_t n, T* y, bool accumulate) {
  Launch(device, "Scaled", ScaledKernel<T>, LoopBlocks(device, n), kThreads, 0, x, factor, n, y, accumulate);
}

template <class T>
void Fill(const Device& device, double value, int64_t n, T* y) {
  Launch(device, "Fill", FillKernel<T>, LoopBlocks(device, n), kThreads, 0, value, n, y);
}

void Round(const Device& device, const float* x, int64_t n, BF16* y) {
  Launch(device, "Round", RoundKernel, LoopBlocks(device, n), kThreads, 0, x, n, y);
}

void Widened(const Device& device, const BF16* x, int64_t n, float* y, bool accumulate) {
  Launch(device, "Widened", WidenedKernel, LoopBlocks(device, n), kThreads, 0, x, n, y, accumulate);
}

template <class T>
void SwiGlu(const Device& device, const T* gate, const T* up, int64_t n, T* y) {
  Launch(device, "SwiGlu", SwiGluKernel<T>, LoopBlocks(device, n), kThreads, 0, gate, up, n, y);
}

template <class T>
void SwiGluGrad(const Device& device, const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                Target<T> dup) {
  Launch(device, "SwiGluGrad", SwiGluGradKernel<T>, LoopBlocks(device, n), kThreads, 0, gate, up, dy, n,
         dgate, dup);
}

#define GRADSYNC_INSTANTIATE(T)                                                \
  template void Sum<T>(const Device&, const T*, const T*, int64_t, T*);        \
  template void Scaled<T>(const Device&, const T*, double, int64_t, T*, bool); \
  template void Fill<T>(const Device&, double, int64_t, T*);                   \
  template void SwiGlu<T>(const Device&, const T*, const T*, int64_t, T*);     \
  template void SwiGluGrad<T>(const Device&, const T*, const T*, const T*, int64_t, Target<T>, Target<T>);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cuda
