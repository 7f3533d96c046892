#pragma once

#include <cstdint>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

// The differentiable operations of image models. The rules of model/functions.h apply: with activations in
// bf16, the weight of a convolution is a parameter's copy in bf16, with an f32 gradient. Data per channel,
// targets and losses are f32.
//
// An activation is in channel blocks: (batch, channels / block, height, width, block). Channel c is element c
// % block of block c / block. block is 1, 8 or 16 on the CPU, and 1 or all channels on CUDA. The input and
// output of a convolution may have different blocks. So images have the usual order (batch, channels, height,
// width, 1), and no activation must be reordered, except images on CUDA. Weights and gradients of weights are
// always row-major.
//
// Each operation keeps for its backward pass (in addition to inputs that other operations keep anyway):
//
//   Conv2d             x, weight BatchNorm2d        x, weight, bias, two numbers per channel; with a residual
//   and a relu also its output MaxPool2d          a byte per element of its output GlobalAveragePool  nothing
//   AddBias            nothing MeanSquaredError   x, target
namespace gradsync::model {

// Returns the fastest channel block on the device that divides `channels`: 16 (only with AVX-512), 8 or 1. On
// CUDA, returns all channels, or 1 for f64; Conv2d accepts no other block on CUDA.
int64_t ChannelBlock(const Device& device, DType dtype, int64_t channels);

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;  // zeros on each side
  int64_t out_block = 1;
};

// Computes a two-dimensional convolution without a bias: x, an activation of `in` channels; weight (out, in,
// size, size) -> an activation of `out` channels in blocks of out_block. The height of the output is (height
// + 2 padding - size) / stride + 1; the width of the output follows from the width of x in this way.
Var Conv2d(const Var& x, const Var& weight, const Conv2dOptions& options);

// Running averages of batch normalisation. Each forward pass updates these averages; they are not trained.
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

// Computes batch normalisation in training, arXiv:1502.03167, with the residual and activation of a residual
// block:
//
//   act((x - mean) / sqrt(variance + eps) * weight + bias + residual)
//
// mean and (biased) variance of a channel are over all pixels of the channel in all images, at least two
// pixels; act is max(0, .) with `relu`, else the identity; an undefined residual is not added. x and residual
// are activations of one shape, weight and bias (channels). Buffers move by `momentum` towards the batch's
// mean and unbiased variance.
Var BatchNorm2d(const Var& x, const Var& weight, const Var& bias, const BatchNormBuffers& buffers,
                const BatchNormOptions& options, const Var& residual = Var());

// Returns the maximum of each window of size x size pixels, `stride` apart, with a padding of less than
// `size` that is never the maximum. The gradient goes to the first of equal elements.
Var MaxPool2d(const Var& x, int64_t size, int64_t stride, int64_t padding);

// Returns the mean of each channel of each image: an activation -> (batch, channels).
Var GlobalAveragePool(const Var& x);

// Computes x + bias. x (rows, d), bias (d).
Var AddBias(const Var& x, const Var& bias);

// Returns the mean of (x - target)^2 over all elements. x and target have one shape and are not empty. The
// result has shape ().
Var MeanSquaredError(const Var& x, const Tensor& target);

}  // namespace gradsync::model
