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

// dy where the relu let its input through, else 0.
template <class T>
__device__ Wide<T> Masked(const BatchNormGrad<T>& grad, int64_t channel, int64_t i) {
  using W = Wide<T>;
  const W dy = Widen(grad.dy[i]);
  if (!grad.in.relu) return dy;
  const W value = grad.y != nullptr ? Widen(grad.y[i]) : Affine(grad, channel, grad.in.x[i]);
  return value <= W{0} ? W{0} : dy;
}

}  // namespace

template <class T>
void BatchNorm<T>::OnCuda(Device& device) const {
  LaunchBlocks(device, "BatchNormStatistics", shape.channels, [*this] __device__(int64_t channel) {
    using W = Wide<T>;
    const int64_t count = shape.batch * shape.pixels();
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      sum += static_cast<double>(Widen(in.x[shape.ElementOf(channel, i)]));
    }
    const double center = CombineBlock(sum, 0.0, SumOf{}) / static_cast<double>(count);
    double squares = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const double deviation = static_cast<double>(Widen(in.x[shape.ElementOf(channel, i)])) - center;
      squares += deviation * deviation;
    }
    squares = CombineBlock(squares, 0.0, SumOf{});
    if (threadIdx.x != 0) return;
    mean[channel] = static_cast<W>(center);
    r[channel] = static_cast<W>(1 / sqrt(squares / static_cast<double>(count) + eps));
    MoveAverage(mean[channel], momentum, running_mean + channel);
    MoveAverage(static_cast<W>(squares / static_cast<double>(count - 1)), momentum, running_var + channel);
    if (channel == 0) ++*num_batches_tracked;
  });
  LaunchLoop(device, "BatchNorm", shape.numel(), [*this] __device__(int64_t i) {
    Wide<T> value = Affine(*this, shape.ChannelOf(i), in.x[i]);
    if (in.residual != nullptr) value += Widen(in.residual[i]);
    y[i] = Narrow<T>(in.relu && Wide<T>{0} > value ? Wide<T>{0} : value);  // NaN passes
  });
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNorm, OnCuda);

template <class T>
void BatchNormGrad<T>::OnCuda(Device& device) const {
  // (channels): what the gradient of x needs.
  const Scratch<Wide<T>> mean_scratch(device, shape.channels), slope_scratch(device, shape.channels);
  Wide<T>*const mean_g = mean_scratch.data(), *const slope = slope_scratch.data();
  LaunchBlocks(device, "BatchNormGradSums", shape.channels, [=, *this] __device__(int64_t channel) {
    using W = Wide<T>;
    const int64_t count = shape.batch * shape.pixels();
    const W center = mean[channel];
    double sum_g = 0, sum_gx = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const int64_t at = shape.ElementOf(channel, i);
      const W g = Masked(*this, channel, at);
      sum_g += static_cast<double>(g);
      sum_gx += static_cast<double>(g * (Widen(in.x[at]) - center));
    }
    sum_g = CombineBlock(sum_g, 0.0, SumOf{});
    sum_gx = CombineBlock(sum_gx, 0.0, SumOf{});
    if (threadIdx.x != 0) return;
    const W scale = r[channel];
    StoreIfWanted(dbias, channel, static_cast<W>(sum_g));
    StoreIfWanted(dweight, channel, static_cast<W>(sum_gx) * scale);
    mean_g[channel] = static_cast<W>(sum_g / static_cast<double>(count));
    slope[channel] = static_cast<W>(sum_gx / static_cast<double>(count)) * scale * scale;
  });
  if (dx.data == nullptr && dresidual.data == nullptr) return;
  LaunchLoop(device, "BatchNormInputGrad", shape.numel(), [=, *this] __device__(int64_t i) {
    const int64_t channel = shape.ChannelOf(i);
    const Wide<T> g = Masked(*this, channel, i);
    StoreIfWanted(dresidual, i, g);
    const Wide<T> inner = g - mean_g[channel] - (Widen(in.x[i]) - mean[channel]) * slope[channel];
    StoreIfWanted(dx, i, in.weight[channel] * r[channel] * inner);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(BatchNormGrad, OnCuda);

}  // namespace gradsync::model::kernels
