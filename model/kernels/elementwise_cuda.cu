// Elementwise operations: loops that stride by the whole grid.

#include "model/kernels/cuda_support.h"
#include "model/kernels/elementwise.h"

namespace gradsync::model::kernels {
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

template <class From, class To>
__global__ void CastKernel(const From* x, int64_t n, To* y, bool accumulate) {
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
__global__ void SwiGluGradKernel(const T* gate, const T* up, const T* dy, int64_t n, Destination<T*> dgate,
                                 Destination<T*> dup) {
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
void Sum<T>::OnCuda(Device& device) const {
  Launch(device, "Sum", SumKernel<T>, LoopBlocks(device, n), kThreads, 0, a, b, n, y);
}
GRADSYNC_INSTANTIATE_KERNEL(Sum, OnCuda);

template <class T>
void Scaled<T>::OnCuda(Device& device) const {
  Launch(device, "Scaled", ScaledKernel<T>, LoopBlocks(device, n), kThreads, 0, x, factor, n, y.data,
         y.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(Scaled, OnCuda);

template <class T>
void Fill<T>::OnCuda(Device& device) const {
  Launch(device, "Fill", FillKernel<T>, LoopBlocks(device, n), kThreads, 0, value, n, y);
}
GRADSYNC_INSTANTIATE_KERNEL(Fill, OnCuda);

template <class From, class To>
void Cast<From, To>::OnCuda(Device& device) const {
  Launch(device, "Cast", CastKernel<From, To>, LoopBlocks(device, n), kThreads, 0, x, n, y.data,
         y.accumulate);
}
template void Cast<float, BF16>::OnCuda(Device&) const;
template void Cast<BF16, float>::OnCuda(Device&) const;

template <class T>
void SwiGlu<T>::OnCuda(Device& device) const {
  Launch(device, "SwiGlu", SwiGluKernel<T>, LoopBlocks(device, n), kThreads, 0, gate, up, n, y);
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGlu, OnCuda);

template <class T>
void SwiGluGrad<T>::OnCuda(Device& device) const {
  Launch(device, "SwiGluGrad", SwiGluGradKernel<T>, LoopBlocks(device, n), kThreads, 0, gate, up, dy, n,
         dgate, dup);
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGluGrad, OnCuda);

}  // namespace gradsync::model::kernels
