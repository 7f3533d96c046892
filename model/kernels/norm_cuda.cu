// Root mean square normalisation. The forward pass and the gradient of the input take a warp per row; what
// they read twice comes from the caches the second time. The gradient of the weight is a sum over rows: each
// block sums a part of the rows in a strip of the columns, and then the parts' sums are added.

#include "model/kernels/cuda_support.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/norm.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// A block reads so many packs of so many rows at once: of bf16 and f32 128 bytes of a row, a cache line.
constexpr int kStripPacks = 8, kRowsAtOnce = kThreads / kStripPacks;
// What a multiprocessor holds of them.
constexpr int kBlocksAtOnce = 4;

// A block for each of the strips of each part: its sums of a part's rows. sums: (parts, d)
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
    // Several rows at a time, to hide the memory's latency.
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
  // As many parts as fill the GPU, if there are rows for them. The same in every run, and so the result is.
  const int64_t blocks = int64_t{kBlocksAtOnce} * Gpu(device).num_multiprocessors();
  const int64_t part_rows =
      std::max(int64_t{kRowsAtOnce}, CeilDiv(rows, std::max(int64_t{1}, blocks / strips)));
  const int64_t parts = CeilDiv(rows, part_rows);
  const Scratch<Wide<T>> sums(device, parts * d);
  const auto kernel = packed ? RmsNormWeightGradKernel<kPackNumel<T>, T> : RmsNormWeightGradKernel<1, T>;
  Launch(device, "RmsNormWeightGrad", kernel, strips * parts, kThreads, 0, *this, strips, part_rows,
         sums.data());
  // The sum of the parts, in their order.
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
