#pragma once

#include <cstdint>

#include "model/destination.h"
#include "model/kernels/kernel.h"
#include "model/kernels/layouts.h"

// Pooling of images.
namespace gradsync::model::kernels {

// Square windows of `size` pixels, `stride` apart, over an image that is padded by less than `size`; padding
// is never the maximum. `size` is at most 15.
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

// y is the maximum of each window, `largest` its position in the window: row * size + column. The first of
// equal elements counts. NaN counts as larger than any number.
template <class T>
struct MaxPool {
  PoolShape shape;
  const T* x;
  T* y;
  uint8_t* largest;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// dx = dy where x was the maximum, summed over the windows.
template <class T>
struct MaxPoolGrad {
  PoolShape shape;
  const uint8_t* largest;
  const T* dy;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// y = the mean of each channel of each image.
template <class T>
struct AveragePool {
  ActivationShape shape;
  const T* x;
  T* y;  // (batch, channels)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// dx = dy / pixels.
template <class T>
struct AveragePoolGrad {
  ActivationShape shape;
  const T* dy;  // (batch, channels)
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
