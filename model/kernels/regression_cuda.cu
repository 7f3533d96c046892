// A bias and a loss of squares: small beside everything else, so simple.

#include "model/kernels/cuda_support.h"
#include "model/kernels/regression.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
__global__ void AddBiasKernel(const T* x, const Wide<T>* bias, int64_t n, int64_t d, T* y) {
  for (int64_t i = GridIndex(); i < n; i += GridStride()) y[i] = Narrow<T>(Widen(x[i]) + bias[i % d]);
}

// A thread per column: neighbours read neighbouring elements of a row.
template <class T>
__global__ void BiasGradKernel(const T* dy, int64_t rows, int64_t d, Wide<T>* dbias, bool accumulate) {
  for (int64_t col = GridIndex(); col < d; col += GridStride()) {
    Wide<T> sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += Widen(dy[row * d + col]);
    Store(dbias + col, sum, accumulate);
  }
}

// One block. Sums in f64, as on the CPU.
template <class T>
__global__ void SquaredErrorKernel(const T* x, const Wide<T>* target, int64_t n, Wide<T>* loss) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const double error = static_cast<double>(Widen(x[i])) - static_cast<double>(target[i]);
    sum += error * error;
  }
  sum = CombineBlock(sum, 0.0, SumOf{});
  if (threadIdx.x == 0) *loss = static_cast<Wide<T>>(sum / static_cast<double>(n));
}

template <class T>
__global__ void SquaredErrorGradKernel(const T* x, const Wide<T>* target, const Wide<T>* dloss, int64_t n,
                                       T* dx, bool accumulate) {
  using W = Wide<T>;
  const W factor = W{2} / static_cast<W>(n) * *dloss;
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    Store(dx + i, (Widen(x[i]) - target[i]) * factor, accumulate);
  }
}

}  // namespace

template <class T>
void AddBias<T>::OnCuda(Device& device) const {
  Launch(device, "AddBias", AddBiasKernel<T>, LoopBlocks(device, rows * d), kThreads, 0, x, bias, rows * d, d,
         y);
}
GRADSYNC_INSTANTIATE_KERNEL(AddBias, OnCuda);

template <class T>
void BiasGrad<T>::OnCuda(Device& device) const {
  Launch(device, "BiasGrad", BiasGradKernel<T>, LoopBlocks(device, d), kThreads, 0, dy, rows, d, dbias.data,
         dbias.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(BiasGrad, OnCuda);

template <class T>
void SquaredError<T>::OnCuda(Device& device) const {
  Launch(device, "SquaredError", SquaredErrorKernel<T>, 1, kThreads, 0, x, target, n, loss);
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredError, OnCuda);

template <class T>
void SquaredErrorGrad<T>::OnCuda(Device& device) const {
  Launch(device, "SquaredErrorGrad", SquaredErrorGradKernel<T>, LoopBlocks(device, n), kThreads, 0, x, target,
         dloss, n, dx.data, dx.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredErrorGrad, OnCuda);

}  // namespace gradsync::model::kernels
