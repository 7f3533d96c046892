#pragma once

#include <cstdint>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

// Declares the differentiable operations of image models, such as convolution. The tensors of a call must be
// on one device and have the same dtype: f32, f64 or bf16. This rule about dtypes has two exceptions.
// BatchNormBuffers::num_batches_tracked is always i64. With bf16 activations, BatchNorm2d's weight, bias and
// running averages, AddBias's bias and MeanSquaredError's target must be f32, and MeanSquaredError's loss is
// f32. An operation throws InvalidInput if its tensors have wrong dtypes, devices or shapes.
//
// Activations with pixels (the outputs of convolutions, batch normalisation and max pooling) have the shape
// (batch, channels / block, height, width, block), where `block` channels of a pixel are adjacent in memory.
// Channel c is element c % block of block c / block. `block` is 1, 8 or 16 on the CPU, and 1 or the number of
// channels on CUDA. The input images of a model have block 1, so they are in the usual order (batch,
// channels, height, width). The input and the output of a convolution may have different values of `block`.
// On CUDA, if the input has several adjacent channels (`block` above 1), the output's `block` must be the
// number of output channels. On CUDA, the input and the output of an f64 convolution must have a `block` of 1
// channel.
//
// For its backward pass, each operation keeps these tensors in memory:
//
//   Conv2d             x, weight
//   BatchNorm2d        x, weight, bias, two numbers per channel; with a residual and a relu also its output
//   MaxPool2d          a byte per element of its output
//   GlobalAveragePool  nothing
//   AddBias            nothing
//   MeanSquaredError   x, target
namespace gradsync::model {

// Returns the block (number of channels whose values for a pixel are adjacent in memory) that models should
// use for activations of `channels` channels. On the CPU the block is the largest of 16 (only with AVX-512),
// 8 and 1 that divides `channels`; on CUDA the block is `channels`, or 1 for f64.
int64_t ChannelBlock(const Device& device, DType dtype, int64_t channels);

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on each side
  int64_t out_block = 1;
};

// Computes a two-dimensional convolution without a bias. x has `in` channels, and weight has the shape (out,
// in, size, size). The result has `out` channels; out_block channels of a pixel are adjacent in memory. The
// height of the result is (height of x + 2 padding - size) / stride + 1, rounded down, and the width
// likewise.
Var Conv2d(const Var& x, const Var& weight, const Conv2dOptions& options);

// The running averages of batch normalisation, and the number of batches that they include. Each forward pass
// updates the averages and the number.
struct BatchNormBuffers {
  Tensor running_mean;         // (channels), with the weight's dtype
  Tensor running_var;          // (channels), with the weight's dtype
  Tensor num_batches_tracked;  // i64 ()
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
  bool relu = false;
};

// Computes batch normalisation with the statistics of the batch, arXiv:1502.03167, and the residual and
// activation function of a residual block:
//
//   act((x - mean) / sqrt(variance + eps) * weight + bias + residual)
//
// mean and (biased) variance of a channel are computed over its pixels in all images of the batch, which must
// be at least two pixels. act(z) is max(0, z) if options.relu is true, else z; an undefined residual is not
// added. x and residual have the same shape; weight and bias are (channels). Adds momentum * (value -
// average) to each running average in `buffers`, where the values are the batch's mean and unbiased variance.
Var BatchNorm2d(const Var& x, const Var& weight, const Var& bias, const BatchNormBuffers& buffers,
                const BatchNormOptions& options, const Var& residual = Var());

// Returns the maximum of each window of size x size pixels; windows are `stride` pixels apart. `size` must be
// at most 15, and `padding` less than `size`; padded pixels are never the maximum. The backward pass adds the
// gradient of each maximum to the gradient of the pixel that has this maximum. If several pixels have the
// maximum, only the first of them gets the gradient. The maximum of a window with NaNs is NaN, and its last
// NaN gets the gradient.
Var MaxPool2d(const Var& x, int64_t size, int64_t stride, int64_t padding);

// Returns the mean over the pixels of each channel of each image, as a tensor of shape (batch, channels).
Var GlobalAveragePool(const Var& x);

// Computes x + bias, for x (rows, d) and bias (d), where d is at least 1.
Var AddBias(const Var& x, const Var& bias);

// Returns the mean of (x - target)^2 over all elements, of shape (). x and target must have the same shape,
// with at least one element.
Var MeanSquaredError(const Var& x, const Tensor& target);

}  // namespace gradsync::model
