#pragma once

#include <compare>
#include <cstdint>

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// The shape of a two-dimensional convolution (as in deep learning, the kernel is not flipped) with a square
// kernel, equal stride and equal zero padding in both directions, and no bias. The channels of input and
// output are stored in blocks (ActivationShape::block). The blocks of the output may have another size than
// those of the input. The weight's shape is (out_channels, in_channels, size, size), row-major.
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
// on this CPU: 16 if oneDNN can use AVX-512 (UsesInstructions in onednn.h), else 8.
int64_t PreferredChannelBlock();

// On the CPU, the library oneDNN computes convolutions of f32 numbers, on all threads of the device.
// Convolutions of f64 numbers are plain loops on one thread, and slow. oneDNN also computes convolutions of
// BF16 numbers if UsesBF16Instructions() (onednn.h: AVX-512 BF16) is true, except for shapes that oneDNN
// computes slowly, wrongly or not at all. If oneDNN does not compute a BF16 convolution, the call converts
// its inputs to temporary f32 arrays, and is slower than a call for f32. The CPU sums the products of BF16
// numbers in f32 whether oneDNN computes a BF16 convolution or not.
//
// On CUDA, cuDNN computes convolutions of f32, f64 and BF16 numbers, with bitwise equal results in every run.
// cuDNN rounds f32 numbers to TF32 (10 bits of mantissa) only if CudaDevice::allow_tf32() is true. BF16
// numbers are converted to f32 and multiplied as TF32 or f32, which both represent them exactly. On CUDA, a
// block (ActivationShape::block) of the input or output must have one channel (layout NCHW) or, except for
// f64, all channels (layout NHWC); else the kernels' functions OnCuda throw InvalidInput. The functions
// OnCuda also throw InvalidInput if the input is NHWC with several channels, but the output's block does not
// have all channels. The functions OnCuda throw CudaError if cuDNN cannot compute the convolution.
//
// The kernel Conv2d computes y, the convolution of x with `weight`.
template <class T>
struct Conv2d {
  ConvShape shape;
  const T *x, *weight;
  T* y;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes dweight, the gradient of the convolution's weight, from x and from dy, the gradient of y.
template <class T>
struct Conv2dWeightGrad {
  ConvShape shape;
  const T *x, *dy;
  Destination<Wide<T>*> dweight;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes dx, the gradient of the convolution's input x, from `weight` and from dy, the gradient of y.
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
