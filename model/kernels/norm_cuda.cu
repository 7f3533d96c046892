// Root mean square normalisation: the forward pass and the gradient of the input take a block per row, the
// gradient of the weight a block per 32 columns.

#include "model/kernels/cuda_support.h"
#include "model/kernels/norm.h"

namespace gradsync::model::kernels::cuda {
namespace {

template <class T>
__global__ void RmsNormKernel(const T* x,       // (rows, d)
                              const T* weight,  // (d)
                              int64_t d, T eps,
                              T* y,    // (rows, d)
                              T* r) {  // (rows)
  const int64_t row = blockIdx.x;
  const T* in = x + row * d;
  T squares = 0;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) squares += in[i] * in[i];
  squares = CombineBlock(squares, T{0}, SumOf{});
  const T scale = T{1} / sqrt(squares / static_cast<T>(d) + eps);
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) y[row * d + i] = in[i] * scale * weight[i];
  if (threadIdx.x == 0) r[row] = scale;
}

template <class T>
__global__ void RmsNormInputGradKernel(const T* x,       // (rows, d)
                                       const T* weight,  // (d)
                                       const T* r,       // (rows)
                                       const T* dy,      // (rows, d)
                                       int64_t d,
                                       T* dx,  // (rows, d)
                                       bool accumulate) {
  const int64_t row = blockIdx.x;
  const T* in = x + row * d;
  const T* out_grad = dy + row * d;
  T along = 0;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) along += out_grad[i] * weight[i] * in[i];
  along = CombineBlock(along, T{0}, SumOf{});
  const T scale = r[row];
  along = along / static_cast<T>(d) * scale * scale;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    Store(dx + row * d + i, (out_grad[i] * weight[i] - in[i] * along) * scale, accumulate);
  }
}

// A warp reads 32 neighbouring columns of a row; the block's warps take the rows in turn.
constexpr int kColumns = 32;

template <class T>
__global__ void RmsNormWeightGradKernel(const T* x,   // (rows, d)
                                        const T* r,   // (rows)
                                        const T* dy,  // (rows, d)
                                        int64_t rows, int64_t d,
                                        T* dweight,  // (d)
                                        bool accumulate) {
  __shared__ T sums[kThreads];  // (warps, kColumns)
  const int lane = static_cast<int>(threadIdx.x) % kColumns, warp = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t column = int64_t{blockIdx.x} * kColumns + lane;
  T sum = 0;
  if (column < d) {
    for (int64_t row = warp; row < rows; row += kThreads / kColumns) {
      sum += dy[row * d + column] * x[row * d + column] * r[row];
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
void RmsNorm(const Device& device, const T* x, const T* weight, int64_t rows, int64_t d, double eps, T* y,
             T* r) {
  Launch(device, "RmsNorm", RmsNormKernel<T>, rows, kThreads, 0, x, weight, d, eps, y, r);
}

template <class T>
void RmsNormWeightGrad(const Device& device, const T* x, const T* r, const T* dy, int64_t rows, int64_t d,
                       T* dweight, bool accumulate) {
  Launch(device, "RmsNormWeightGrad", RmsNormWeightGradKernel<T>, (d + kColumns - 1) / kColumns, kThreads, 0,
         x, r, dy, rows, d, dweight, accumulate);
}

template <class T>
void RmsNormInputGrad(const Device& device, const T* x, const T* weight, const T* r, const T* dy,
                      int64_t rows, int64_t d, T* dx, bool accumulate) {
  Launch(device, "RmsNormInputGrad", RmsNormInputGradKernel<T>, rows, kThreads, 0, x, weight, r, dy, d, dx,
         accumulate);
}

#define GRADSYNC_INSTANTIATE(T)                                                                              \
  template void RmsNorm<T>(const Device&, const T*, const T*, int64_t, int64_t, double, T*, T*);             \
  template void RmsNormWeightGrad<T>(const Device&, const T*, const T*, const T*, int64_t, int64_t, T*,      \
                                     bool);                                                                  \
  template void RmsNormInputGrad<T>(const Device&, const T*, const T*, const T*, const T*, int64_t, int64_t, \
                                    T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cuda
