// Computes the root mean square normalisation. Forward and the gradient of the input use one warp per row;
// the second read of a row is from the caches. The gradient of the weight is a sum over rows: each block sums
// a part of the rows in a strip of the columns, and then the sums of the parts are added.

#include "model/kernels/norm.h"
#include "model/tensor/cuda_support.h"
#include "model/tensor/elementwise.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// A block reads kStripPacks packs of kRowsAtOnce rows at a time. For bf16 and f32 these are 128 bytes of a
// row, which is a cache line.
constexpr int kStripPacks = 8, kRowsAtOnce = kThreads / kStripPacks;
// The number of blocks on a multiprocessor.
constexpr int kBlocksAtOnce = 4;

// Computes the sums of a part's rows in a strip, with one block for each strip of each part. `sums` is
// (parts, d).
template <int N, class T>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    RmsNormWeightGradKernel(RmsNormWeightGrad<T> grad, unsigned strips, int64_t part_rows, Wide<T>* sums) {
  using W = Wide<T>;
  constexpr int kColumns = kStripPacks * N;
  __shared__ W of_threads[kRowsAtOnce * kColumns];
  const int64_t part = blockIdx.x / strips, d = grad.d;
  const int64_t first = int64_t{blockIdx.x % strips} * kColumns, at = first + threadIdx.x % kStripPacks * N;
  const int64_t begin = part * part_rows, end = begin + part_rows < grad.rows ? begin + part_rows : grad.rows;
  W sum[N] = {};
  if (at < d) {
    // Reads several rows at a time to hide the latency of memory.
#pragma unroll 4
    for (int64_t row = begin + threadIdx.x / kStripPacks; row < end; row += kRowsAtOnce) {
      W dy[N], x[N];
      Load(grad.dy + row * d + at, dy);
      Load(grad.x + row * d + at, x);
      const W r = grad.r[row];
      for (int i = 0; i < N; ++i) sum[i] += dy[i] * x[i] * r;
    }
  }
  for (int i = 0; i < N; ++i) of_threads[threadIdx.x * N + i] = sum[i];
  __syncthreads();
  if (threadIdx.x >= kColumns || first + threadIdx.x >= d) return;
  W total = 0;
  for (int row = 0; row < kRowsAtOnce; ++row) total += of_threads[row * kColumns + threadIdx.x];
  sums[part * d + first + threadIdx.x] = total;
}

}  // namespace

template <class T>
void RmsNorm<T>::OnCuda(Device& device) const {
  const bool packed = d % kPackNumel<T> == 0 && ArePacked(x, weight, y);
  LaunchRows<T>(device, "RmsNorm", rows, packed, [*this] __device__(auto numel, int64_t row, int64_t lane) {
    using W = Wide<T>;
    W in[numel], w[numel], squares = 0;
#pragma unroll 4
    for (int64_t at = lane * numel; at < d; at += kWarp * numel) {
      Load(x + row * d + at, in);
      for (int i = 0; i < numel; ++i) squares += in[i] * in[i];
    }
    squares = CombineLanes<kWarp>(squares, SumOf{});
    const W scale = W{1} / sqrt(squares / static_cast<W>(d) + static_cast<W>(eps));
    for (int64_t at = lane * numel; at < d; at += kWarp * numel) {
      Load(x + row * d + at, in);
      Load(weight + at, w);
      for (int i = 0; i < numel; ++i) in[i] *= scale * w[i];
      Store(y + row * d + at, in, false);
    }
    if (lane == 0) r[row] = scale;
  });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNorm, OnCuda);

template <class T>
void RmsNormWeightGrad<T>::OnCuda(Device& device) const {
  const bool packed = d % kPackNumel<T> == 0 && ArePacked(x, dy);
  const int64_t strips = CeilDiv(d, kStripPacks * (packed ? kPackNumel<T> : 1));
  // The number of parts fills the GPU, if there are enough rows. It is equal in every run, so the result is
  // also equal.
  const int64_t blocks = int64_t{kBlocksAtOnce} * Gpu(device).num_multiprocessors();
  const int64_t part_rows =
      std::max(int64_t{kRowsAtOnce}, CeilDiv(rows, std::max(int64_t{1}, blocks / strips)));
  const int64_t parts = CeilDiv(rows, part_rows);
  const Scratch<Wide<T>> sums(device, parts * d);
  const auto kernel = packed ? RmsNormWeightGradKernel<kPackNumel<T>, T> : RmsNormWeightGradKernel<1, T>;
  Launch(device, "RmsNormWeightGrad", kernel, strips * parts, kThreads, 0, *this, strips, part_rows,
         sums.data());
  // Adds the sums of the parts, in order.
  BiasGrad<Wide<T>>{.dy = sums.data(), .rows = parts, .d = d, .dbias = dweight}.OnCuda(device);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormWeightGrad, OnCuda);

template <class T>
void RmsNormInputGrad<T>::OnCuda(Device& device) const {
  const bool packed = d % kPackNumel<T> == 0 && ArePacked(x, weight, dy, dx.data);
  LaunchRows<T>(device, "RmsNormInputGrad", rows, packed,
                [*this] __device__(auto numel, int64_t row, int64_t lane) {
                  using W = Wide<T>;
                  W in[numel], g[numel], w[numel], along = 0;
                  const auto load = [&](int64_t at) {
                    Load(x + row * d + at, in);
                    Load(dy + row * d + at, g);
                    Load(weight + at, w);
                    for (int i = 0; i < numel; ++i) g[i] *= w[i];
                  };
                  for (int64_t at = lane * numel; at < d; at += kWarp * numel) {
                    load(at);
                    for (int i = 0; i < numel; ++i) along += g[i] * in[i];
                  }
                  const W scale = r[row];
                  along = CombineLanes<kWarp>(along, SumOf{}) / static_cast<W>(d) * scale * scale;
                  for (int64_t at = lane * numel; at < d; at += kWarp * numel) {
                    load(at);
                    for (int i = 0; i < numel; ++i) g[i] = (g[i] - in[i] * along) * scale;
                    Store(dx.data + row * d + at, g, dx.accumulate);
                  }
                });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormInputGrad, OnCuda);

}  // namespace gradsync::model::kernels
