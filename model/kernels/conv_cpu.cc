#include <algorithm>
#include <type_traits>

#include "model/kernels/conv.h"
#include "model/kernels/conv_onednn.h"
#include "model/kernels/cpu_isa.h"
#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"
#include "model/kernels/vector.h"

namespace gradsync::model::kernels::cpu {
namespace {

// The first element of a channel's pixels; the next pixel is `block` elements further.
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

// n numbers in f32.
class WideCopy {
 public:
  WideCopy(Device& device, const BF16* x, int64_t n) : copy_(device, n) {
    ParallelFor(device, n, [&](int64_t begin, int64_t end) {
      ConvertSpan(x + begin, end - begin, copy_.data() + begin);
    });
  }

  const float* data() const { return copy_.data(); }

 private:
  const Scratch<float> copy_;
};

void AddRounded(const float* x, int64_t n, BF16* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = BF16(static_cast<float>(y[i]) + x[i]);
}

// y = or += x, rounded once.
void StoreRounded(Device& device, const float* x, int64_t n, BF16* y, bool accumulate) {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    accumulate ? AddRounded(x + begin, end - begin, y + begin)
               : ConvertSpan(x + begin, end - begin, y + begin);
  });
}

}  // namespace

int64_t PreferredChannelBlock() { return UsesInstructions(dnnl::cpu_isa::avx512_core) ? 16 : 8; }

template <class T>
void Conv2d(Device& device, const ConvShape& shape, const T* x, const T* weight, T* y) {
  if constexpr (std::is_same_v<T, double>) {
    std::fill_n(y, shape.out().numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { y[o] += x[i] * weight[w]; });
  } else {
    if (OneDnnConvsOf(device).Forward(shape, x, weight, y)) return;
    if constexpr (std::is_same_v<T, BF16>) {
      const WideCopy wide_x(device, x, shape.in.numel()), wide_weight(device, weight, shape.weight_numel());
      const Scratch<float> wide_y(device, shape.out().numel());
      Conv2d(device, shape, wide_x.data(), wide_weight.data(), wide_y.data());
      StoreRounded(device, wide_y.data(), shape.out().numel(), y, /*accumulate=*/false);
    }
  }
}

template <class T>
void Conv2dWeightGrad(Device& device, const ConvShape& shape, const T* x, const T* dy, Wide<T>* dweight,
                      bool accumulate) {
  if constexpr (std::is_same_v<T, double>) {
    if (!accumulate) std::fill_n(dweight, shape.weight_numel(), T{0});
    ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dweight[w] += x[i] * dy[o]; });
  } else {
    if (OneDnnConvsOf(device).WeightGrad(shape, x, dy, dweight, accumulate)) return;
    if constexpr (std::is_same_v<T, BF16>) {
      const WideCopy wide_x(device, x, shape.in.numel()), wide_dy(device, dy, shape.out().numel());
      Conv2dWeightGrad(device, shape, wide_x.data(), wide_dy.data(), dweight, accumulate);
    }
  }
}

template <>
void Conv2dInputGrad(Device& /*device*/, const ConvShape& shape, const double* weight, const double* dy,
                     double* dx, bool accumulate) {
  if (!accumulate) std::fill_n(dx, shape.in.numel(), 0.0);
  ForEachTerm(shape, [&](int64_t i, int64_t w, int64_t o) { dx[i] += weight[w] * dy[o]; });
}

template <>
void Conv2dInputGrad(Device& device, const ConvShape& shape, const float* weight, const float* dy, float* dx,
                     bool accumulate) {
  OneDnnConvs& convs = OneDnnConvsOf(device);
  if (accumulate && shape.size == 1 && shape.stride == 1 && shape.padding == 0) {
    return convs.AddInputGrad(shape, weight, dy, dx);
  }
  if (!accumulate) {
    convs.InputGrad(shape, weight, dy, dx);
    return;
  }
  const Scratch<float> gradient(device, shape.in.numel());
  const float* const contribution = gradient.data();
  convs.InputGrad(shape, weight, dy, gradient.data());
  ParallelFor(device, shape.in.numel(),
              [&](int64_t begin, int64_t end) { Add(contribution + begin, dx + begin, end - begin); });
}

template <>
void Conv2dInputGrad(Device& device, const ConvShape& shape, const BF16* weight, const BF16* dy, BF16* dx,
                     bool accumulate) {
  OneDnnConvs& convs = OneDnnConvsOf(device);
  if (!accumulate && convs.InputGrad(shape, weight, dy, dx)) return;
  const Scratch<float> wide_dx(device, shape.in.numel());
  if (!accumulate || !convs.InputGrad(shape, weight, dy, wide_dx.data())) {
    const WideCopy wide_weight(device, weight, shape.weight_numel()),
        wide_dy(device, dy, shape.out().numel());
    Conv2dInputGrad(device, shape, wide_weight.data(), wide_dy.data(), wide_dx.data(), /*accumulate=*/false);
  }
  StoreRounded(device, wide_dx.data(), shape.in.numel(), dx, accumulate);
}

template void Conv2d<float>(Device&, const ConvShape&, const float*, const float*, float*);
template void Conv2d<double>(Device&, const ConvShape&, const double*, const double*, double*);
template void Conv2d<BF16>(Device&, const ConvShape&, const BF16*, const BF16*, BF16*);
template void Conv2dWeightGrad<float>(Device&, const ConvShape&, const float*, const float*, float*, bool);
template void Conv2dWeightGrad<double>(Device&, const ConvShape&, const double*, const double*, double*,
                                       bool);
template void Conv2dWeightGrad<BF16>(Device&, const ConvShape&, const BF16*, const BF16*, float*, bool);

}  // namespace gradsync::model::kernels::cpu
