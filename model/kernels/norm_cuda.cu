// Root mean square normalisation: the forward pass and the gradient of the input take a block per row, the
// gradient of the weight a block per 32 columns.

#include "model/kernels/cuda_support.h"
#include "model/kernels/norm.h"

namespace gradsync::model::kernels {
namespace {

// A warp reads 32 neighbouring columns of a row; the block's warps take the rows in turn.
constexpr int kColumns = 32;

template <class T>
__global__ void RmsNormWeightGradKernel(RmsNormWeightGrad<T> grad) {
  using W = Wide<T>;
  __shared__ W sums[kThreads];  // (warps, kColumns)
  const int lane = static_cast<int>(threadIdx.x) % kColumns, warp = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t column = int64_t{blockIdx.x} * kColumns + lane, d = grad.d;
  W sum = 0;
  if (column < d) {
    // Several rows at a time: there are not enough blocks to hide the memory's latency otherwise.
#pragma unroll 8
    for (int64_t row = warp; row < grad.rows; row += kThreads / kColumns) {
      sum += Widen(grad.dy[row * d + column]) * Widen(grad.x[row * d + column]) * grad.r[row];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp != 0 || column >= d) return;
  for (int other = 1; other < kThreads / kColumns; ++other) sum += sums[other * kColumns + lane];
  Store(grad.dweight.data + column, sum, grad.dweight.accumulate);
}

}  // namespace

template <class T>
void RmsNorm<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "RmsNorm", rows, [*this] __device__(int64_t row) {
    using W = Wide<T>;
    const T* in = x + row * d;
    W squares = 0;
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) squares += Widen(in[i]) * Widen(in[i]);
    squares = CombineBlock(squares, W{0}, SumOf{});
    const W scale = W{1} / sqrt(squares / static_cast<W>(d) + static_cast<W>(eps));
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      y[row * d + i] = Narrow<T>(Widen(in[i]) * scale * weight[i]);
    }
    if (threadIdx.x == 0) r[row] = scale;
  });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNorm, OnCuda);

template <class T>
void RmsNormWeightGrad<T>::OnCuda(Device& device) const {
  Launch(device, "RmsNormWeightGrad", RmsNormWeightGradKernel<T>, (d + kColumns - 1) / kColumns, kThreads, 0,
         *this);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormWeightGrad, OnCuda);

template <class T>
void RmsNormInputGrad<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "RmsNormInputGrad", rows, [*this] __device__(int64_t row) {
    using W = Wide<T>;
    const T* in = x + row * d;
    const T* out_grad = dy + row * d;
    W along = 0;
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x)
      along += Widen(out_grad[i]) * weight[i] * Widen(in[i]);
    along = CombineBlock(along, W{0}, SumOf{});
    const W scale = r[row];
    along = along / static_cast<W>(d) * scale * scale;
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      Store(dx.data + row * d + i, (Widen(out_grad[i]) * weight[i] - Widen(in[i]) * along) * scale,
            dx.accumulate);
    }
  });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
