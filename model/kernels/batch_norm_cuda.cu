// Batch normalisation. Sums over a channel take a block each, in f64, which keeps their digits without the
// care that the CPU's version takes in f32; what is elementwise then takes the whole GPU.

#include "model/kernels/batch_norm.h"
#include "model/kernels/cuda_support.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

// (x - mean) * r * weight + bias, rounded once, whatever is computed with it: forward and backward agree on
// its sign.
template <class Op, class T>
__device__ Wide<T> Affine(const Op& op, int64_t channel, T x) {
  return fma(Widen(x) - op.mean[channel], op.in.weight[channel] * op.r[channel], op.in.bias[channel]);
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
  const T* const x = norm.in.x;
  const int64_t channel = blockIdx.x;
  const int64_t count = norm.shape.batch * norm.shape.pixels();
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    sum += static_cast<double>(Widen(x[norm.shape.ElementOf(channel, i)]));
  }
  const double center = CombineBlock(sum, 0.0, SumOf{}) / static_cast<double>(count);
  double squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const double deviation = static_cast<double>(Widen(x[norm.shape.ElementOf(channel, i)])) - center;
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
__global__ void NormalizeKernel(BatchNorm<T> norm) {
  using W = Wide<T>;
  const BatchNormInputs<T>& in = norm.in;
  for (int64_t i = GridIndex(); i < norm.shape.numel(); i += GridStride()) {
    W value = Affine(norm, norm.shape.ChannelOf(i), in.x[i]);
    if (in.residual != nullptr) value += Widen(in.residual[i]);
    norm.y[i] = Narrow<T>(in.relu && W{0} > value ? W{0} : value);  // NaN passes
  }
}

// dy where the relu let its input through, else 0.
template <class T>
__device__ Wide<T> Masked(const BatchNormGrad<T>& grad, int64_t channel, int64_t i) {
  using W = Wide<T>;
  const W dy = Widen(grad.dy[i]);
  if (!grad.in.relu) return dy;
  const W value = grad.y != nullptr ? Widen(grad.y[i]) : Affine(grad, channel, grad.in.x[i]);
  return value <= W{0} ? W{0} : dy;
}

// A block per channel. mean_g and slope (channels) are what the gradient of x needs.
template <class T>
__global__ void GradSumsKernel(BatchNormGrad<T> grad, Wide<T>* mean_g, Wide<T>* slope) {
  using W = Wide<T>;
  const int64_t channel = blockIdx.x;
  const int64_t count = grad.shape.batch * grad.shape.pixels();
  const W center = grad.mean[channel];
  double sum_g = 0, sum_gx = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t at = grad.shape.ElementOf(channel, i);
    const W g = Masked(grad, channel, at);
    sum_g += static_cast<double>(g);
    sum_gx += static_cast<double>(g * (Widen(grad.in.x[at]) - center));
  }
  sum_g = CombineBlock(sum_g, 0.0, SumOf{});
  sum_gx = CombineBlock(sum_gx, 0.0, SumOf{});
  if (threadIdx.x != 0) return;
  const W scale = grad.r[channel];
  StoreIfWanted(grad.dbias, channel, static_cast<W>(sum_g));
  StoreIfWanted(grad.dweight, channel, static_cast<W>(sum_gx) * scale);
  mean_g[channel] = static_cast<W>(sum_g / static_cast<double>(count));
  slope[channel] = static_cast<W>(sum_gx / static_cast<double>(count)) * scale * scale;
}

template <class T>
__global__ void InputGradKernel(BatchNormGrad<T> grad, const Wide<T>* mean_g, const Wide<T>* slope) {
  using W = Wide<T>;
  for (int64_t i = GridIndex(); i < grad.shape.numel(); i += GridStride()) {
    const int64_t channel = grad.shape.ChannelOf(i);
    const W g = Masked(grad, channel, i);
    StoreIfWanted(grad.dresidual, i, g);
    const W inner = g - mean_g[channel] - (Widen(grad.in.x[i]) - grad.mean[channel]) * slope[channel];
    StoreIfWanted(grad.dx, i, grad.in.weight[channel] * grad.r[channel] * inner);
  }
}

}  // namespace

template <class T>
void BatchNorm<T>::OnCuda(Device& device) const {
  Launch(device, "BatchNormStatistics", StatisticsKernel<T>, shape.channels, kThreads, 0, *this);
  LaunchLoop(device, "BatchNorm", NormalizeKernel<T>, shape.numel(), *this);
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNorm, OnCuda);

template <class T>
void BatchNormGrad<T>::OnCuda(Device& device) const {
  const Scratch<Wide<T>> mean_g(device, shape.channels), slope(device, shape.channels);
  Launch(device, "BatchNormGradSums", GradSumsKernel<T>, shape.channels, kThreads, 0, *this, mean_g.data(),
         slope.data());
  if (dx.data == nullptr && dresidual.data == nullptr) return;
  LaunchLoop(device, "BatchNormInputGrad", InputGradKernel<T>, shape.numel(), *this, mean_g.data(),
             slope.data());
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNormGrad, OnCuda);

}  // namespace gradsync::model::kernels
