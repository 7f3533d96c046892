// Batch normalisation. Sums over a channel are computed in f64, which needs no special algorithm to avoid
// cancellation. Each block sums a part of the pixels in a strip of the channels, and then a warp adds the
// sums of the parts. Elementwise kernels use packs.

#include "model/kernels/batch_norm.h"
#include "model/tensor/cuda_support.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// Returns the channel of an element. Adjacent elements belong to adjacent channels, or, in blocks of one
// channel, to one channel.
__device__ int64_t ChannelAt(const ActivationShape& shape, int64_t channel, int i) {
  return shape.block == 1 ? channel : channel + i;
}

template <class T>
bool IsPacked(const ActivationShape& shape, std::initializer_list<const T*> arrays) {
  for (const T* const array : arrays) {
    if (!ArePacked(array)) return false;
  }
  return (shape.block == 1 ? shape.pixels() : shape.channels) % kPackNumel<T> == 0;
}

// Returns (x - mean) * r * weight + bias, rounded once, so that forward and backward always have equal signs.
template <class Op, class W>
__device__ W Affine(const Op& op, int64_t channel, W x) {
  return fma(x - op.mean[channel], op.in.weight[channel] * op.r[channel], op.in.bias[channel]);
}

// Computes average += momentum * (value - average).
template <class W>
__device__ void MoveAverage(W value, double momentum, W* average) {
  *average += static_cast<W>(momentum) * (value - *average);
}

// Returns dy where the input of the relu was positive, else 0, for N elements from `at` on. x has these
// elements of x.
template <int N, class T>
__device__ void LoadMasked(const BatchNormGrad<T>& grad, int64_t channel, int64_t at, const Wide<T> (&x)[N],
                           Wide<T> (&g)[N]) {
  using W = Wide<T>;
  Load(grad.dy + at, g);
  if (!grad.in.relu) return;
  W y[N];
  if (grad.y != nullptr) Load(grad.y + at, y);
  for (int i = 0; i < N; ++i) {
    const W value = grad.y != nullptr ? y[i] : Affine(grad, ChannelAt(grad.shape, channel, i), x[i]);
    if (value <= W{0}) g[i] = 0;
  }
}

// Two sums over a channel.
struct Sums {
  double first = 0, second = 0;
};

// The number of threads of a block that have the channels of one pixel. With packs of bf16 and f32 this is a
// cache line.
constexpr int kStripPacks = 8;
// The number of blocks on a multiprocessor. With more blocks, the sums of a pack of bf16 do not fit into
// registers.
constexpr int kBlocksAtOnce = 2;

// Sums with one block for each strip of each part. fn(numel, channel, at, sums) adds the elements from `at`
// on, of channels from `channel` on, to their sums. `parts` is (parts, channels).
template <int N, int kLanes, class Fn>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    ChannelSumsKernel(ActivationShape shape, unsigned strips, int64_t part_pixels, Sums* parts, Fn fn) {
  __shared__ Sums of_threads[kThreads * N];
  constexpr int kRows = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, row = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t first = int64_t{blockIdx.x % strips} * kLanes * N, channel = first + lane * N;
  const int64_t part = blockIdx.x / strips, count = shape.batch * shape.pixels(), begin = part * part_pixels;
  const int64_t end = begin + part_pixels < count ? begin + part_pixels : count;
  Sums sums[N];
  if (channel < shape.channels) {
#pragma unroll 4
    for (int64_t i = begin + row; i < end; i += kRows)
      fn(Numel<N>{}, channel, shape.ElementOf(channel, i), sums);
  }
  for (int i = 0; i < N; ++i) of_threads[threadIdx.x * N + i] = sums[i];
  __syncthreads();
  // Halves the number of rows until one row is left.
  for (int left = kRows / 2; left > 0; left /= 2) {
    for (int i = static_cast<int>(threadIdx.x); i < left * kLanes * N; i += kThreads) {
      of_threads[i].first += of_threads[i + left * kLanes * N].first;
      of_threads[i].second += of_threads[i + left * kLanes * N].second;
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < kLanes * N && first + i < shape.channels; i += kThreads)
    parts[part * shape.channels + first + i] = of_threads[i];
}

// Calls finish(channel, sums), a __device__ lambda, once for each channel, with the sums that fn adds, as
// above. The results are bitwise equal in every run on one type of GPU.
template <class T, class Fn, class Finish>
void LaunchChannelSums(Device& device, const char* name, const ActivationShape& shape, bool packed,
                       const Fn& fn, const Finish& finish) {
  const int lanes = shape.block > 1 ? kStripPacks : 1;
  const int64_t strips = CeilDiv(shape.channels, lanes * (packed && shape.block > 1 ? kPackNumel<T> : 1));
  const int64_t count = shape.batch * shape.pixels(), rows = kThreads / lanes;
  const int64_t blocks = int64_t{kBlocksAtOnce} * Gpu(device).num_multiprocessors();
  const int64_t part_pixels = std::max(rows, CeilDiv(count, std::max(int64_t{1}, blocks / strips)));
  const int64_t num_parts = CeilDiv(count, part_pixels);
  const Scratch<Sums> scratch(device, num_parts * shape.channels);
  Sums* const parts = scratch.data();
  const auto kernel = shape.block == 1 ? ChannelSumsKernel<1, 1, Fn>
                      : packed         ? ChannelSumsKernel<kPackNumel<T>, kStripPacks, Fn>
                                       : ChannelSumsKernel<1, kStripPacks, Fn>;
  Launch(device, name, kernel, strips * num_parts, kThreads, 0, shape, strips, part_pixels, parts, fn);
  LaunchRows<T>(device, name, shape.channels, false,
                [=, channels = shape.channels] __device__(auto, int64_t channel, int64_t lane) {
                  Sums sums;
                  for (int64_t part = lane; part < num_parts; part += kWarp) {
                    sums.first += parts[part * channels + channel].first;
                    sums.second += parts[part * channels + channel].second;
                  }
                  sums.first = CombineLanes<kWarp>(sums.first, SumOf{});
                  sums.second = CombineLanes<kWarp>(sums.second, SumOf{});
                  if (lane == 0) finish(channel, sums);
                });
}

}  // namespace

template <class T>
void BatchNorm<T>::OnCuda(Device& device) const {
  using W = Wide<T>;
  const bool packed = IsPacked<T>(shape, {in.x, in.residual, y});
  const double count = static_cast<double>(shape.batch * shape.pixels());
  // Sums deviations from the channel's first element, which keeps the precision of a variance that is much
  // smaller than the mean.
  LaunchChannelSums<T>(
      device, "BatchNormStatistics", shape, packed,
      [*this] __device__(auto numel, int64_t channel, int64_t at, Sums* sums) {
        W x[numel], pivot[numel];
        Load(in.x + at, x);
        Load(in.x + shape.ElementOf(channel, 0), pivot);
        for (int i = 0; i < numel; ++i) {
          const double deviation = static_cast<double>(x[i]) - static_cast<double>(pivot[i]);
          sums[i].first += deviation;
          sums[i].second += deviation * deviation;
        }
      },
      [=, *this] __device__(int64_t channel, const Sums& sums) {
        const double offset = sums.first / count, squares = sums.second - sums.first * offset;
        const double spread = squares > 0 || squares != squares ? squares : 0;
        mean[channel] =
            static_cast<W>(static_cast<double>(Widen(in.x[shape.ElementOf(channel, 0)])) + offset);
        r[channel] = static_cast<W>(1 / sqrt(spread / count + eps));
        MoveAverage(mean[channel], momentum, running_mean + channel);
        MoveAverage(static_cast<W>(spread / (count - 1)), momentum, running_var + channel);
        if (channel == 0) ++*num_batches_tracked;
      });
  LaunchPackLoop<T>(device, "BatchNorm", shape.numel(), packed, [*this] __device__(auto numel, int64_t at) {
    W values[numel], residual[numel];
    Load(in.x + at, values);
    if (in.residual != nullptr) Load(in.residual + at, residual);
    const int64_t channel = shape.ChannelOf(at);
    for (int i = 0; i < numel; ++i) {
      W value = Affine(*this, ChannelAt(shape, channel, i), values[i]);
      if (in.residual != nullptr) value += residual[i];
      values[i] = in.relu && W{0} > value ? W{0} : value;  // NaN passes
    }
    Store(y + at, values, false);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNorm, OnCuda);

template <class T>
void BatchNormGrad<T>::OnCuda(Device& device) const {
  using W = Wide<T>;
  const bool packed = IsPacked<T>(shape, {in.x, y, dy, dx.data, dresidual.data});
  // Values for the gradient of x, (channels).
  const Scratch<W> mean_scratch(device, shape.channels), slope_scratch(device, shape.channels);
  W *const mean_g = mean_scratch.data(), *const slope = slope_scratch.data();
  const double count = static_cast<double>(shape.batch * shape.pixels());
  LaunchChannelSums<T>(
      device, "BatchNormGradSums", shape, packed,
      [*this] __device__(auto numel, int64_t channel, int64_t at, Sums* sums) {
        W x[numel], g[numel];
        Load(in.x + at, x);
        LoadMasked(*this, channel, at, x, g);
        for (int i = 0; i < numel; ++i) {
          sums[i].first += static_cast<double>(g[i]);
          sums[i].second += static_cast<double>(g[i] * (x[i] - mean[ChannelAt(shape, channel, i)]));
        }
      },
      [=, *this] __device__(int64_t channel, const Sums& sums) {
        const W scale = r[channel];
        StoreIfWanted(dbias, channel, static_cast<W>(sums.first));
        StoreIfWanted(dweight, channel, static_cast<W>(sums.second) * scale);
        mean_g[channel] = static_cast<W>(sums.first / count);
        slope[channel] = static_cast<W>(sums.second / count) * scale * scale;
      });
  if (dx.data == nullptr && dresidual.data == nullptr) return;
  LaunchPackLoop<T>(device, "BatchNormInputGrad", shape.numel(), packed,
                    [=, *this] __device__(auto numel, int64_t at) {
                      W x[numel], g[numel];
                      const int64_t channel = shape.ChannelOf(at);
                      Load(in.x + at, x);
                      LoadMasked(*this, channel, at, x, g);
                      StoreIfWanted(dresidual, at, g);
                      for (int i = 0; i < numel; ++i) {
                        const int64_t c = ChannelAt(shape, channel, i);
                        g[i] = in.weight[c] * r[c] * (g[i] - mean_g[c] - (x[i] - mean[c]) * slope[c]);
                      }
                      StoreIfWanted(dx, at, g);
                    });
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNormGrad, OnCuda);

}  // namespace gradsync::model::kernels
