// Elementwise operations: loops that stride by the whole grid.

#include "model/kernels/cuda_support.h"
#include "model/kernels/elementwise.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
__global__ void ScaledKernel(Scaled<T> op) {
  const Wide<T> factor = static_cast<Wide<T>>(op.factor);
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) {
    Store(op.y.data + i, Widen(op.x[i]) * factor, op.y.accumulate);
  }
}

template <class T>
__global__ void FillKernel(Fill<T> op) {
  const T value = Narrow<T>(static_cast<Wide<T>>(op.value));
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) op.y[i] = value;
}

template <class From, class To>
__global__ void CastKernel(Cast<From, To> op) {
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) {
    Store(op.y.data + i, Widen(op.x[i]), op.y.accumulate);
  }
}

template <class T>
__global__ void AddBiasKernel(AddBias<T> op) {
  for (int64_t i = GridIndex(); i < op.rows * op.d; i += GridStride()) {
    op.y[i] = Narrow<T>(Widen(op.x[i]) + op.bias[i % op.d]);
  }
}

// A thread per column: neighbours read neighbouring elements of a row.
template <class T>
__global__ void BiasGradKernel(BiasGrad<T> op) {
  for (int64_t col = GridIndex(); col < op.d; col += GridStride()) {
    Wide<T> sum = 0;
    for (int64_t row = 0; row < op.rows; ++row) sum += Widen(op.dy[row * op.d + col]);
    Store(op.dbias.data + col, sum, op.dbias.accumulate);
  }
}

template <class T>
__global__ void SwiGluKernel(SwiGlu<T> op) {
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) {
    const Wide<T> g = Widen(op.gate[i]);
    op.y[i] = Narrow<T>(g / (Wide<T>{1} + exp(-g)) * Widen(op.up[i]));
  }
}

template <class T>
__global__ void SwiGluGradKernel(SwiGluGrad<T> op) {
  using W = Wide<T>;
  for (int64_t i = GridIndex(); i < op.n; i += GridStride()) {
    const W g = Widen(op.gate[i]), out_grad = Widen(op.dy[i]);
    const W s = W{1} / (W{1} + exp(-g));
    StoreIfWanted(op.dup, i, out_grad * g * s);
    StoreIfWanted(op.dgate, i, out_grad * Widen(op.up[i]) * s * (W{1} + g * (W{1} - s)));
  }
}

}  // namespace

template <class T>
void Scaled<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "Scaled", ScaledKernel<T>, n, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(Scaled, OnCuda);

template <class T>
void Fill<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "Fill", FillKernel<T>, n, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(Fill, OnCuda);

template <class From, class To>
void Cast<From, To>::OnCuda(Device& device) const {
  LaunchLoop(device, "Cast", CastKernel<From, To>, n, *this);
}
template void Cast<float, BF16>::OnCuda(Device&) const;
template void Cast<BF16, float>::OnCuda(Device&) const;

template <class T>
void AddBias<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "AddBias", AddBiasKernel<T>, rows * d, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(AddBias, OnCuda);

template <class T>
void BiasGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "BiasGrad", BiasGradKernel<T>, d, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(BiasGrad, OnCuda);

template <class T>
void SwiGlu<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "SwiGlu", SwiGluKernel<T>, n, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGlu, OnCuda);

template <class T>
void SwiGluGrad<T>::OnCuda(Device& device) const {
  LaunchLoop(device, "SwiGluGrad", SwiGluGradKernel<T>, n, *this);
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGluGrad, OnCuda);

}  // namespace gradsync::model::kernels
