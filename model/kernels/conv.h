#pragma once

#include <compare>
#include <cstdint>

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// A two-dimensional convolution (as in deep learning, the kernel is not flipped) with a square kernel, equal
// stride and equal zero padding in both directions, and no bias. Input and output may have different numbers
// of channels in a block (ActivationShape::block), and so different layouts in memory. The weight is
// (out_channels, in_channels, size, size), row-major.
struct ConvShape {
  ActivationShape in;
  int64_t out_channels;
  int64_t out_block;
  int64_t size;  // size of the kernel, in both directions
  int64_t stride;
  int64_t padding;

  ActivationShape out() const {
    return {.batch = in.batch,
            .channels = out_channels,
            .height = (in.height + 2 * padding - size) / stride + 1,
            .width = (in.width + 2 * padding - size) / stride + 1,
            .block = out_block};
  }
  int64_t weight_numel() const { return out_channels * in.channels * size * size; }

  friend auto operator<=>(const ConvShape&, const ConvShape&) = default;
};

// Returns the number of channels in a block (ActivationShape::block) with which f32 convolutions are fastest
// on this CPU: 16 with AVX-512, else 8.
int64_t PreferredChannelBlock();

// On the CPU, oneDNN computes convolutions in f32. f64 uses plain loops on one thread, which are slow. oneDNN
// also computes BF16 if the CPU has instructions for it (AVX-512 BF16), except for shapes that it computes
// slowly, wrongly or not at all. Otherwise each call converts its bf16 inputs to temporary f32 arrays, and is
// slower than a call for f32. Sums of bf16 products are f32.
//
// On CUDA, cuDNN computes all types, with bitwise equal results in every run. f32 uses TF32 only if
// CudaDevice::allow_tf32() is true. BF16 is converted to f32 and multiplied with TF32, which represents bf16
// numbers exactly. Input and output must have blocks (ActivationShape::block) of one channel or, except for
// f64, of all channels. If the input has blocks of all channels, the output must have them too. For other
// blocks, OnCuda throws InvalidInput. It throws CudaError if cuDNN cannot compute the convolution.
//
// Computes y, the convolution of x with weight.
template <class T>
struct Conv2d {
  ConvShape shape;
  const T *x, *weight;
  T* y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes dweight, the gradient of the convolution with respect to its weight.
template <class T>
struct Conv2dWeightGrad {
  ConvShape shape;
  const T *x, *dy;
  Destination<Wide<T>*> dweight;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes dx, the gradient of the convolution with respect to its input.
template <class T>
struct Conv2dInputGrad {
  ConvShape shape;
  const T *weight, *dy;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

template <class T>
inline constexpr bool kBuiltForCuda<Conv2d<T>> = GRADSYNC_HAVE_CUDNN != 0;
template <class T>
inline constexpr bool kBuiltForCuda<Conv2dWeightGrad<T>> = GRADSYNC_HAVE_CUDNN != 0;
template <class T>
inline constexpr bool kBuiltForCuda<Conv2dInputGrad<T>> = GRADSYNC_HAVE_CUDNN != 0;

}  // namespace gradsync::model::kernels
