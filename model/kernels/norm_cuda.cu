// Root mean square normalisation: the forward pass and the gradient of the input take a block per row, the
// gradient of the weight a block per 32 columns.

#include "model/kernels/cuda_support.h"
#include "model/kernels/norm.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
__global__ void RmsNormKernel(const T* x,             // (rows, d)
                              const Wide<T>* weight,  // (d)
                              int64_t d, Wide<T> eps,
                              T* y,          // (rows, d)
                              Wide<T>* r) {  // (rows)
  using W = Wide<T>;
  const int64_t row = blockIdx.x;
  const T* in = x + row * d;
  W squares = 0;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) squares += Widen(in[i]) * Widen(in[i]);
  squares = CombineBlock(squares, W{0}, SumOf{});
  const W scale = W{1} / sqrt(squares / static_cast<W>(d) + eps);
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    y[row * d + i] = Narrow<T>(Widen(in[i]) * scale * weight[i]);
  }
  if (threadIdx.x == 0) r[row] = scale;
}

template <class T>
__global__ void RmsNormInputGradKernel(const T* x,             // (rows, d)
                                       const Wide<T>* weight,  // (d)
                                       const Wide<T>* r,       // (rows)
                                       const T* dy,            // (rows, d)
                                       int64_t d,
                                       T* dx,  // (rows, d)
                                       bool accumulate) {
  using W = Wide<T>;
  const int64_t row = blockIdx.x;
  const T* in = x + row * d;
  const T* out_grad = dy + row * d;
  W along = 0;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x)
    along += Widen(out_grad[i]) * weight[i] * Widen(in[i]);
  along = CombineBlock(along, W{0}, SumOf{});
  const W scale = r[row];
  along = along / static_cast<W>(d) * scale * scale;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    Store(dx + row * d + i, (Widen(out_grad[i]) * weight[i] - Widen(in[i]) * along) * scale, accumulate);
  }
}

// A warp reads 32 neighbouring columns of a row; the block's warps take the rows in turn.
constexpr int kColumns = 32;

template <class T>
__global__ void RmsNormWeightGradKernel(const T* x,        // (rows, d)
                                        const Wide<T>* r,  // (rows)
                                        const T* dy,       // (rows, d)
                                        int64_t rows, int64_t d,
                                        Wide<T>* dweight,  // (d)
                                        bool accumulate) {
  using W = Wide<T>;
  __shared__ W sums[kThreads];  // (warps, kColumns)
  const int lane = static_cast<int>(threadIdx.x) % kColumns, warp = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t column = int64_t{blockIdx.x} * kColumns + lane;
  W sum = 0;
  if (column < d) {
    // Several rows under way at a time: there are not enough blocks to hide the memory's latency otherwise.
#pragma unroll 8
    for (int64_t row = warp; row < rows; row += kThreads / kColumns) {
      sum += Widen(dy[row * d + column]) * Widen(x[row * d + column]) * r[row];
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp != 0 || column >= d) return;
  for (int other = 1; other < kThreads / kColumns; ++other) sum += sums[other * kColumns + lane];
  Store(dweight + column, sum, accumulate);
}

}  // namespace

template <class T>
void RmsNorm<T>::OnCuda(Device& device) const {
  Launch(device, "RmsNorm", RmsNormKernel<T>, rows, kThreads, 0, x, weight, d, eps, y, r);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNorm, OnCuda);

template <class T>
void RmsNormWeightGrad<T>::OnCuda(Device& device) const {
  Launch(device, "RmsNormWeightGrad", RmsNormWeightGradKernel<T>, (d + kColumns - 1) / kColumns, kThreads, 0,
         x, r, dy, rows, d, dweight.data, dweight.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormWeightGrad, OnCuda);

template <class T>
void RmsNormInputGrad<T>::OnCuda(Device& device) const {
  Launch(device, "RmsNormInputGrad", RmsNormInputGradKernel<T>, rows, kThreads, 0, x, weight, r, dy, d,
         dx.data, dx.accumulate);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
