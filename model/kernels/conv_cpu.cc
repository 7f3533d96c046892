#include <algorithm>
#include <type_traits>

#include "model/kernels/conv.h"
#include "model/kernels/conv_onednn.h"
#include "model/kernels/onednn.h"
#include "model/tensor/elementwise.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// Returns the index of a channel's first pixel. The next pixel is `block` elements further.
int64_t ChannelStart(const ActivationShape& shape, int64_t image, int64_t channel) {
  return (image * shape.channel_blocks() + channel / shape.block) * shape.plane() + channel % shape.block;
}

// Calls fn(x, w, y) with the indices of every product x[] w[] that is a term of y[]: for each pair of
// channels and each tap of the kernel, over all pixels.
template <class Fn>
void ForEachTerm(const ConvShape& shape, const Fn& fn) {
  const ActivationShape in = shape.in, out = shape.out();
  for (int64_t image = 0; image < in.batch; ++image) {
    for (int64_t pair = 0; pair < out.channels * in.channels; ++pair) {
      const int64_t x = ChannelStart(in, image, pair % in.channels);
      const int64_t y = ChannelStart(out, image, pair / in.channels);
      for (int64_t tap = 0; tap < shape.size * shape.size; ++tap) {
        const int64_t down = tap / shape.size - shape.padding, right = tap % shape.size - shape.padding;
        for (int64_t row = 0; row < out.height; ++row) {
          const int64_t in_row = row * shape.stride + down;
          if (in_row < 0 || in_row >= in.height) continue;
          for (int64_t col = 0; col < out.width; ++col) {
            const int64_t in_col = col * shape.stride + right;
            if (in_col < 0 || in_col >= in.width) continue;
            fn(x + (in_row * in.width + in_col) * in.block, pair * shape.size * shape.size + tap,
               y + (row * out.width + col) * out.block);
          }
        }
      }
    }
  }
}

// A copy of n numbers in f32.
class WideCopy {
 public:
  WideCopy(Device& device, const BF16* x, int64_t n) : copy_(device, n) {
    Cast<BF16, float>{.x = x, .n = n, .y = {.data = copy_.data()}}.OnCpu(device);
  }

  const float* data() const { return copy_.data(); }

 private:
  const Scratch<float> copy_;
};

}  // namespace

int64_t PreferredChannelBlock() { return UsesInstructions(dnnl::cpu_isa::avx512_core) ? 16 : 8; }

template <class T>
void Conv2d<T>::OnCpu(Device& device) const {
  if constexpr (std::is_same_v<T, double>) {
    std::fill_n(y, shape.out().numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { y[o] += x[i] * weight[w]; });
  } else {
    if (OneDnnConvsOf(device).Forward(shape, x, weight, y)) return;
    if constexpr (std::is_same_v<T, BF16>) {
      const WideCopy wide_x(device, x, shape.in.numel()), wide_weight(device, weight, shape.weight_numel());
      const int64_t n = shape.out().numel();
      const Scratch<float> wide_y(device, n);
      Conv2d<float>{.shape = shape, .x = wide_x.data(), .weight = wide_weight.data(), .y = wide_y.data()}
          .OnCpu(device);
      Cast<float, BF16>{.x = wide_y.data(), .n = n, .y = {.data = y}}.OnCpu(device);
    }
  }
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2d, OnCpu);

template <class T>
void Conv2dWeightGrad<T>::OnCpu(Device& device) const {
  if constexpr (std::is_same_v<T, double>) {
    if (!dweight.accumulate) std::fill_n(dweight.data, shape.weight_numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dweight.data[w] += x[i] * dy[o]; });
  } else {
    if (OneDnnConvsOf(device).WeightGrad(shape, x, dy, dweight.data, dweight.accumulate)) return;
    if constexpr (std::is_same_v<T, BF16>) {
      const WideCopy wide_x(device, x, shape.in.numel()), wide_dy(device, dy, shape.out().numel());
      Conv2dWeightGrad<float>{.shape = shape, .x = wide_x.data(), .dy = wide_dy.data(), .dweight = dweight}
          .OnCpu(device);
    }
  }
}
GRADSYNC_INSTANTIATE_KERNEL(Conv2dWeightGrad, OnCpu);

template <>
void Conv2dInputGrad<double>::OnCpu(Device& /*device*/) const {
  if (!dx.accumulate) std::fill_n(dx.data, shape.in.numel(), 0.0);
  ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dx.data[i] += weight[w] * dy[o]; });
}

template <>
void Conv2dInputGrad<float>::OnCpu(Device& device) const {
  OneDnnConvs& convs = OneDnnConvsOf(device);
  if (dx.accumulate && shape.size == 1 && shape.stride == 1 && shape.padding == 0) {
    return convs.AddInputGrad(shape, weight, dy, dx.data);
  }
  if (!dx.accumulate) {
    convs.InputGrad(shape, weight, dy, dx.data);
    return;
  }
  const int64_t n = shape.in.numel();
  const Scratch<float> gradient(device, n);
  convs.InputGrad(shape, weight, dy, gradient.data());
  Scaled<float>{.x = gradient.data(), .factor = 1, .n = n, .y = dx}.OnCpu(device);
}

template <>
void Conv2dInputGrad<BF16>::OnCpu(Device& device) const {
  OneDnnConvs& convs = OneDnnConvsOf(device);
  if (!dx.accumulate && convs.InputGrad(shape, weight, dy, dx.data)) return;
  const int64_t n = shape.in.numel();
  const Scratch<float> wide_dx(device, n);
  if (!dx.accumulate || !convs.InputGrad(shape, weight, dy, wide_dx.data())) {
    const WideCopy wide_weight(device, weight, shape.weight_numel()),
        wide_dy(device, dy, shape.out().numel());
    Conv2dInputGrad<float>{
        .shape = shape, .weight = wide_weight.data(), .dy = wide_dy.data(), .dx = {.data = wide_dx.data()}}
        .OnCpu(device);
  }
  Cast<float, BF16>{.x = wide_dx.data(), .n = n, .y = dx}.OnCpu(device);
}

}  // namespace gradsync::model::kernels
