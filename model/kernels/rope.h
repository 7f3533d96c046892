#ifndef GRADSYNC_MODEL_KERNELS_ROPE_H_
#define GRADSYNC_MODEL_KERNELS_ROPE_H_

#include <cstdint>

#include "model/device.h"

namespace gradsync::model::kernels {

struct RopeShape {
  int64_t batch;
  int64_t seq;
  int64_t num_heads;
  int64_t head_dim;  // even
};

namespace cpu {

// y = or += x with the pair (2i, 2i + 1) of every head rotated by position * theta^(-2i / head_dim), or by
// the opposite angle if `inverse`, which is the gradient. x and y are (batch, seq, num_heads * head_dim). The
// angles' cosines and sines stay with the device. T is float, double or BF16.
template <class T>
void Rope(Device& device, const RopeShape& shape, double theta, bool inverse, const T* x, T* y,
          bool accumulate);

}  // namespace cpu

// The same on a CUDA device.
namespace cuda {

template <class T>
void Rope(Device& device, const RopeShape& shape, double theta, bool inverse, const T* x, T* y,
          bool accumulate);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ROPE_H_
