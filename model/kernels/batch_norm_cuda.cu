// Batch normalisation. Sums over a channel take a block each, in f64, which keeps their digits without the
// care that the CPU's version takes in f32; what is elementwise then takes the whole GPU.

#include "model/kernels/batch_norm.h"
#include "model/kernels/cuda_support.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// The index of element i, 0 to batch * pixels - 1, of a channel.
__device__ int64_t ElementOf(const ActivationShape& shape, int64_t channel, int64_t i) {
  const int64_t image = i / shape.pixels(), pixel = i % shape.pixels();
  return ((image * shape.channel_blocks() + channel / shape.block) * shape.pixels() + pixel) * shape.block +
         channel % shape.block;
}

__device__ int64_t ChannelOf(const ActivationShape& shape, int64_t element) {
  return element / shape.plane() % shape.channel_blocks() * shape.block + element % shape.block;
}

// (x - mean) * r * weight + bias, rounded once, whatever is computed with it: forward and backward agree on
// its sign.
template <class T>
__device__ Wide<T> Affine(const BatchNormInputs<T>& in, const Wide<T>* mean, const Wide<T>* r,
                          int64_t channel, T x) {
  return fma(Widen(x) - mean[channel], in.weight[channel] * r[channel], in.bias[channel]);
}

// average += momentum * (value - average).
template <class W>
__device__ void MoveAverage(W value, double momentum, W* average) {
  *average += static_cast<W>(momentum) * (value - *average);
}

// A block per channel.
template <class T>
__global__ void StatisticsKernel(BatchNorm<T> norm) {
  using W = Wide<T>;
  const ActivationShape& shape = norm.shape;
  const T* const x = norm.in.x;
  const int64_t channel = blockIdx.x;
  const int64_t count = shape.batch * shape.pixels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    sum += static_cast<double>(Widen(x[ElementOf(shape, channel, i)]));
  }
  const double center = CombineBlock(sum, 0.0, SumOf{}) / static_cast<double>(count);
  double squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const double deviation = static_cast<double>(Widen(x[ElementOf(shape, channel, i)])) - center;
    squares += deviation * deviation;
  }
  squares = CombineBlock(squares, 0.0, SumOf{});
  if (threadIdx.x != 0) return;
  const W mean = static_cast<W>(center), unbiased = static_cast<W>(squares / static_cast<double>(count - 1));
  norm.mean[channel] = mean;
  norm.r[channel] = static_cast<W>(1 / sqrt(squares / static_cast<double>(count) + norm.eps));
  MoveAverage(mean, norm.momentum, norm.running_mean + channel);
  MoveAverage(unbiased, norm.momentum, norm.running_var + channel);
  if (channel == 0) ++*norm.num_batches_tracked;
}

template <class T>
__global__ void NormalizeKernel(ActivationShape shape, BatchNormInputs<T> in, const Wide<T>* mean,
                                const Wide<T>* r, T* y) {
  using W = Wide<T>;
  const int64_t n = shape.batch * shape.channels * shape.pixels();
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    W value = Affine(in, mean, r, ChannelOf(shape, i), in.x[i]);
    if (in.residual != nullptr) value += Widen(in.residual[i]);
    y[i] = Narrow<T>(in.relu && W{0} > value ? W{0} : value);  // NaN passes
  }
}

// dy where the relu let its input through, else 0.
template <class T>
__device__ Wide<T> Masked(const BatchNormInputs<T>& in, const Wide<T>* mean, const Wide<T>* r, const T* y,
                          const T* dy, int64_t channel, int64_t i) {
  using W = Wide<T>;
  if (!in.relu) return Widen(dy[i]);
  const W value = y != nullptr ? Widen(y[i]) : Affine(in, mean, r, channel, in.x[i]);
  return value <= W{0} ? W{0} : Widen(dy[i]);
}

// A block per channel. mean_g and slope (channels) are what the gradient of x needs.
template <class T>
__global__ void GradSumsKernel(ActivationShape shape, BatchNormInputs<T> in, const Wide<T>* mean,
                               const Wide<T>* r, const T* y, const T* dy, Destination<Wide<T>*> dweight,
                               Destination<Wide<T>*> dbias, Wide<T>* mean_g, Wide<T>* slope) {
  using W = Wide<T>;
  const int64_t channel = blockIdx.x;
  const int64_t count = shape.batch * shape.pixels();
  const W center = mean[channel];
  double sum_g = 0, sum_gx = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t at = ElementOf(shape, channel, i);
    const W g = Masked(in, mean, r, y, dy, channel, at);
    sum_g += static_cast<double>(g);
    sum_gx += static_cast<double>(g * (Widen(in.x[at]) - center));
  }
  sum_g = CombineBlock(sum_g, 0.0, SumOf{});
  sum_gx = CombineBlock(sum_gx, 0.0, SumOf{});
  if (threadIdx.x != 0) return;
  const W scale = r[channel];
  if (dbias.data != nullptr) Store(dbias.data + channel, static_cast<W>(sum_g), dbias.accumulate);
  if (dweight.data != nullptr) {
    Store(dweight.data + channel, static_cast<W>(sum_gx) * scale, dweight.accumulate);
  }
  mean_g[channel] = static_cast<W>(sum_g / static_cast<double>(count));
  slope[channel] = static_cast<W>(sum_gx / static_cast<double>(count)) * scale * scale;
}

template <class T>
__global__ void InputGradKernel(ActivationShape shape, BatchNormInputs<T> in, const Wide<T>* mean,
                                const Wide<T>* r, const T* y, const T* dy, const Wide<T>* mean_g,
                                const Wide<T>* slope, Destination<T*> dx, Destination<T*> dresidual) {
  using W = Wide<T>;
  const int64_t n = shape.batch * shape.channels * shape.pixels();
  for (int64_t i = GridIndex(); i < n; i += GridStride()) {
    const int64_t channel = ChannelOf(shape, i);
    const W g = Masked(in, mean, r, y, dy, channel, i);
    if (dresidual.data != nullptr) Store(dresidual.data + i, g, dresidual.accumulate);
    if (dx.data == nullptr) continue;
    const W inner = g - mean_g[channel] - (Widen(in.x[i]) - mean[channel]) * slope[channel];
    Store(dx.data + i, in.weight[channel] * r[channel] * inner, dx.accumulate);
  }
}

}  // namespace

template <class T>
void BatchNorm<T>::OnCuda(Device& device) const {
  Launch(device, "BatchNormStatistics", StatisticsKernel<T>, shape.channels, kThreads, 0, *this);
  Launch(device, "BatchNorm", NormalizeKernel<T>, LoopBlocks(device, shape.numel()), kThreads, 0, shape, in,
         mean, r, y);
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNorm, OnCuda);

template <class T>
void BatchNormGrad<T>::OnCuda(Device& device) const {
  const Scratch<Wide<T>> mean_g(device, shape.channels), slope(device, shape.channels);
  Launch(device, "BatchNormGradSums", GradSumsKernel<T>, shape.channels, kThreads, 0, shape, in, mean, r, y,
         dy, dweight, dbias, mean_g.data(), slope.data());
  if (dx.data == nullptr && dresidual.data == nullptr) return;
  Launch(device, "BatchNormInputGrad", InputGradKernel<T>, LoopBlocks(device, shape.numel()), kThreads, 0,
         shape, in, mean, r, y, dy, mean_g.data(), slope.data(), dx, dresidual);
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNormGrad, OnCuda);

}  // namespace gradsync::model::kernels
