#ifndef GRADSYNC_MODEL_KERNELS_POOL_H_
#define GRADSYNC_MODEL_KERNELS_POOL_H_

#include <cstdint>

#include "model/device.h"
#include "model/kernels/activation.h"

// Pooling of images. T is float, double or BF16, which is computed in f32 and rounded once.
namespace gradsync::model::kernels {

// Square windows of `size` pixels, `stride` apart, over an image that is padded by less than `size`; what is
// outside the image is never the largest. `size` is at most 15.
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

namespace cpu {

// y is the largest of each window, `largest` its place in the window: row * size + column. Of equal ones the
// first counts, and NaN counts as larger than any number.
template <class T>
void MaxPool(const Device& device, const PoolShape& shape, const T* x, T* y, uint8_t* largest);

// dx = or += dy where x was the largest, for each window.
template <class T>
void MaxPoolGrad(const Device& device, const PoolShape& shape, const uint8_t* largest, const T* dy, T* dx,
                 bool accumulate);

// y (batch, channels) is the mean of each channel of each image.
template <class T>
void AveragePool(const Device& device, const ActivationShape& shape, const T* x, T* y);

// dx = or += dy / pixels.
template <class T>
void AveragePoolGrad(const Device& device, const ActivationShape& shape, const T* dy, T* dx, bool accumulate);

}  // namespace cpu

// The same on a CUDA device.
namespace cuda {

template <class T>
void MaxPool(const Device& device, const PoolShape& shape, const T* x, T* y, uint8_t* largest);

template <class T>
void MaxPoolGrad(const Device& device, const PoolShape& shape, const uint8_t* largest, const T* dy, T* dx,
                 bool accumulate);

template <class T>
void AveragePool(const Device& device, const ActivationShape& shape, const T* x, T* y);

template <class T>
void AveragePoolGrad(const Device& device, const ActivationShape& shape, const T* dy, T* dx, bool accumulate);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_POOL_H_
