#pragma once

#include <cstdint>

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// The shape of max pooling: windows of size x size pixels, `stride` pixels apart, over images with `padding`
// extra pixels on each side. An extra pixel is never a window's maximum. `size` is at most 15, and `padding`
// less than `size`.
struct PoolShape {
  ActivationShape in;
  int64_t size;
  int64_t stride;
  int64_t padding;

  constexpr ActivationShape out() const {
    return {.batch = in.batch,
            .channels = in.channels,
            .height = (in.height + 2 * padding - size) / stride + 1,
            .width = (in.width + 2 * padding - size) / stride + 1,
            .block = in.block};
  }
};

// Computes y, the maximum of each window, and `largest`, the position of this maximum in the window: row *
// size + column. If several elements of a window equal its maximum, `largest` is the position of the first.
// If a window has NaNs, y is NaN and `largest` is the position of the last NaN.
template <class T>
struct MaxPool {
  PoolShape shape;
  const T* x;
  T* y;
  uint8_t* largest;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of MaxPool: dx of a pixel is the sum of dy over all windows whose `largest` is the
// position of this pixel.
template <class T>
struct MaxPoolGrad {
  PoolShape shape;
  const uint8_t* largest;
  const T* dy;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes y, the mean of all pixels of each channel of each image.
template <class T>
struct AveragePool {
  ActivationShape shape;
  const T* x;
  T* y;  // (batch, channels)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of AveragePool: dx = dy / (height * width) for each pixel of a channel.
template <class T>
struct AveragePoolGrad {
  ActivationShape shape;
  const T* dy;  // (batch, channels)
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
