#include "model/vision/vision_functions.h"

#include <string_view>

#include "model/function_support.h"
#include "model/kernels/batch_norm.h"
#include "model/kernels/conv.h"
#include "model/kernels/loss.h"
#include "model/kernels/pool.h"
#include "model/tensor/elementwise.h"

namespace gradsync::model {
namespace {

using kernels::ActivationShape;

constexpr std::string_view kBlocks = "a block of 1, 8 or 16, on CUDA of 1 or all channels";

bool IsBlock(const Tensor& of, int64_t block, int64_t channels) {
  return block == 1 || (of.device()->is_cpu() ? block == 8 || block == 16 : block == channels);
}

ActivationShape Activation(std::string_view op, std::string_view name, const Tensor& x) {
  Require(x.defined() && x.rank() == 5 && IsBlock(x, x.dim(4), x.dim(1) * x.dim(4)) && x.numel() > 0, op,
          ": ", name, " is ", Describe{x},
          ", expected (batch, channels / block, height, width, block), not empty, with ", kBlocks);
  return {.batch = x.dim(0),
          .channels = x.dim(1) * x.dim(4),
          .height = x.dim(2),
          .width = x.dim(3),
          .block = x.dim(4)};
}

Tensor EmptyActivation(const Tensor& like, const ActivationShape& shape, DType dtype) {
  return Tensor::Empty(like.device(),
                       {shape.batch, shape.channel_blocks(), shape.height, shape.width, shape.block}, dtype);
}

// Checks windows of size x size pixels with a distance of `stride`.
void RequireWindows(std::string_view op, const Tensor& x, int64_t size, int64_t stride, int64_t padding) {
  Require(stride >= 1 && padding >= 0, op, ": stride is ", stride, " and padding ", padding,
          ", expected at least 1 and 0");
  Require(size >= 1 && size <= x.dim(2) + 2 * padding && size <= x.dim(3) + 2 * padding, op, ": a window of ",
          size, " x ", size, " does not fit into x ", Describe{x}, " with padding ", padding);
}

void RequireChannels(std::string_view name, const Tensor& values, const Tensor& x, int64_t channels) {
  RequirePair(WideOfSameKind(x, values) && values.shape() == Shape{channels}, "batch_norm", "x", x, name,
              values, "(channels) of the same dtype (for bf16: f32) and device");
}

void RequireBuffers(const BatchNormBuffers& buffers, const Tensor& x, int64_t channels) {
  RequireChannels("running_mean", buffers.running_mean, x, channels);
  RequireChannels("running_var", buffers.running_var, x, channels);
  const Tensor& count = buffers.num_batches_tracked;
  RequirePair(
      count.defined() && count.dtype() == DType::kI64 && count.rank() == 0 && count.device() == x.device(),
      "batch_norm", "x", x, "num_batches_tracked", count, "i64 () on the same device");
}

kernels::ConvShape RequireConv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  const ActivationShape in = Activation("conv2d", "x", x);
  RequirePair(SameKind(x, weight) && weight.rank() == 4 && weight.dim(1) == in.channels &&
                  weight.dim(2) == weight.dim(3) && weight.dim(0) >= 1,
              "conv2d", "x", x, "weight", weight, "(out, in, size, size) of the same dtype and device");
  RequireWindows("conv2d", x, weight.dim(2), options.stride, options.padding);
  Require(IsBlock(x, options.out_block, weight.dim(0)) && weight.dim(0) % options.out_block == 0,
          "conv2d: weight ", Describe{weight}, " has ", weight.dim(0),
          " output channels, asked for in blocks of ", options.out_block, ", expected ", kBlocks,
          ", that divides them");
  return {.in = in,
          .out_channels = weight.dim(0),
          .out_block = options.out_block,
          .size = weight.dim(2),
          .stride = options.stride,
          .padding = options.padding};
}

// residual may be undefined.
ActivationShape RequireBatchNorm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const BatchNormBuffers& buffers, const Tensor& residual) {
  const ActivationShape shape = Activation("batch_norm", "x", x);
  RequireChannels("weight", weight, x, shape.channels);
  RequireChannels("bias", bias, x, shape.channels);
  RequireBuffers(buffers, x, shape.channels);
  if (residual.defined()) RequireSameShape("batch_norm", "x", x, "residual", residual);
  Require(shape.batch * shape.pixels() >= 2, "batch_norm: x ", Describe{x},
          " has one pixel per channel, expected at least two to normalise");
  return shape;
}

kernels::PoolShape RequireMaxPool2d(const Tensor& x, int64_t size, int64_t stride, int64_t padding) {
  const ActivationShape in = Activation("max_pool2d", "x", x);
  RequireWindows("max_pool2d", x, size, stride, padding);
  Require(size <= 15 && padding < size, "max_pool2d: size is ", size, " and padding ", padding,
          ", expected at most 15 and less than the size");
  return {.in = in, .size = size, .stride = stride, .padding = padding};
}

}  // namespace

int64_t ChannelBlock(const Device& device, DType dtype, int64_t channels) {
  if (!device.is_cpu()) return dtype == DType::kF64 ? 1 : channels;
  for (const int64_t block : {16, 8}) {
    if (block <= kernels::PreferredChannelBlock() && channels % block == 0) return block;
  }
  return 1;
}

Var Conv2d(const Var& x_var, const Var& weight_var, const Conv2dOptions& options) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  const kernels::ConvShape shape = RequireConv2d(x, weight, options);
  const Tensor y = EmptyActivation(x, shape.out(), x.dtype());
  Run("conv2d", x, [&]<class T>() {
    return kernels::Conv2d<T>{.shape = shape, .x = Data(x), .weight = Data(weight), .y = Data(y)};
  });
  return Var::FromOp("conv2d", y, {x_var, weight_var}, [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Contribute(op, 1, dy, [&]<class T>(const Grad& dweight) {
      return kernels::Conv2dWeightGrad<T>{.shape = shape, .x = Data(x), .dy = Data(dy), .dweight = dweight};
    });
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::Conv2dInputGrad<T>{.shape = shape, .weight = Data(weight), .dy = Data(dy), .dx = dx};
    });
  });
}

Var BatchNorm2d(const Var& x_var, const Var& weight_var, const Var& bias_var, const BatchNormBuffers& buffers,
                const BatchNormOptions& options, const Var& residual_var) {
  const Tensor x = x_var.value(), weight = weight_var.value(), bias = bias_var.value();
  const Tensor residual = residual_var.value();
  const ActivationShape shape = RequireBatchNorm(x, weight, bias, buffers, residual);
  const bool relu = options.relu;
  const Tensor y = EmptyLike(x), mean = EmptyLike(weight), r = EmptyLike(weight);
  // y = act((x - mean) r weight + bias + residual), r = 1 / sqrt(variance + eps)
  Run("batch_norm", x, [&]<class T>() {
    return kernels::BatchNorm<T>{.shape = shape,
                                 .in = {.x = Data(x),
                                        .weight = Data(weight),
                                        .bias = Data(bias),
                                        .residual = Data(residual),
                                        .relu = relu},
                                 .eps = options.eps,
                                 .momentum = options.momentum,
                                 .y = Data(y),
                                 .mean = Data(mean),
                                 .r = Data(r),
                                 .running_mean = Data(buffers.running_mean),
                                 .running_var = Data(buffers.running_var),
                                 .num_batches_tracked = Data(buffers.num_batches_tracked)};
  });
  // y is kept only if it is needed, because it may be the largest tensor.
  const Tensor kept_y = residual.defined() && relu ? y : Tensor();
  const bool shared = (residual.defined() && residual.SameStorage(x)) || weight.SameStorage(bias);
  const auto backward = [=](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    // With g = dy where act let its input through, x' = (x - mean) r, and means over a channel:
    // dweight = sum of g x', dbias = sum of g, dresidual = g,
    // dx = weight r (g - mean of g - x' mean of (g x'))
    ContributeTogether<4>(
        op, shared, dy,
        [&]<class T>(const Grad& dweight, const Grad& dbias, const Grad& dx, const Grad& dresidual) {
          return kernels::BatchNormGrad<T>{.shape = shape,
                                           .in = {.x = Data(x),
                                                  .weight = Data(weight),
                                                  .bias = Data(bias),
                                                  .residual = nullptr,
                                                  .relu = relu},
                                           .mean = Data(mean),
                                           .r = Data(r),
                                           .y = Data(kept_y),
                                           .dy = Data(dy),
                                           .dx = dx,
                                           .dweight = dweight,
                                           .dbias = dbias,
                                           .dresidual = dresidual};
        });
  };
  return Var::FromOp("batch_norm", y, {weight_var, bias_var, x_var, residual_var}, backward);
}

Var MaxPool2d(const Var& x_var, int64_t size, int64_t stride, int64_t padding) {
  const Tensor& x = x_var.value();
  const kernels::PoolShape shape = RequireMaxPool2d(x, size, stride, padding);
  const Tensor y = EmptyActivation(x, shape.out(), x.dtype());
  const Tensor largest = EmptyActivation(x, shape.out(), DType::kU8);
  // y = the largest x of each window, the one at `largest`
  Run("max_pool2d", x, [&]<class T>() {
    return kernels::MaxPool<T>{.shape = shape, .x = Data(x), .y = Data(y), .largest = Data(largest)};
  });
  return Var::FromOp("max_pool2d", y, {x_var}, [shape, largest](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    // dx = the sum of dy over the windows in which x was the largest
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::MaxPoolGrad<T>{.shape = shape, .largest = Data(largest), .dy = Data(dy), .dx = dx};
    });
  });
}

Var GlobalAveragePool(const Var& x_var) {
  const Tensor& x = x_var.value();
  const ActivationShape shape = Activation("average_pool", "x", x);
  const Tensor y = Tensor::Empty(x.device(), {shape.batch, shape.channels}, x.dtype());
  // y = the mean of x over pixels
  Run("average_pool", x,
      [&]<class T>() { return kernels::AveragePool<T>{.shape = shape, .x = Data(x), .y = Data(y)}; });
  return Var::FromOp("average_pool", y, {x_var}, [shape](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    // dx = dy / pixels
    Contribute(op, 0, dy, [&]<class T>(const Grad& dx) {
      return kernels::AveragePoolGrad<T>{.shape = shape, .dy = Data(dy), .dx = dx};
    });
  });
}

Var AddBias(const Var& x_var, const Var& bias_var) {
  const Tensor& x = x_var.value();
  const Tensor& bias = bias_var.value();
  RequirePair(WideOfSameKind(x, bias) && x.rank() == 2 && x.dim(1) >= 1 && bias.shape() == Shape{x.dim(1)},
              "add_bias", "x", x, "bias", bias,
              "(rows, d) and (d) of one dtype (for bf16: f32 for the bias) and device, d at least 1");
  const int64_t rows = x.dim(0), d = x.dim(1);
  const Tensor y = EmptyLike(x);
  // y = x + bias
  Run("add_bias", x, [&]<class T>() {
    return kernels::AddBias<T>{.x = Data(x), .bias = Data(bias), .rows = rows, .d = d, .y = Data(y)};
  });
  return Var::FromOp("add_bias", y, {x_var, bias_var}, [rows, d](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    // dbias = the sum of dy over rows, dx = dy
    Contribute(op, 1, dy, [&]<class T>(const Grad& dbias) {
      return kernels::BiasGrad<T>{.dy = Data(dy), .rows = rows, .d = d, .dbias = dbias};
    });
    op.PassThrough(0);
  });
}

Var MeanSquaredError(const Var& x_var, const Tensor& target) {
  const Tensor x = x_var.value();
  RequirePair(WideOfSameKind(x, target) && x.shape() == target.shape() && x.numel() >= 1, "squared_error",
              "x", x, "target", target,
              "one shape, dtype (for bf16: f32 for the target) and device, not empty");
  const int64_t n = x.numel();
  const Tensor loss = Tensor::Empty(x.device(), {}, target.dtype());
  // loss = mean((x - target)^2)
  Run("squared_error", x, [&]<class T>() {
    return kernels::SquaredError<T>{.x = Data(x), .target = Data(target), .n = n, .loss = Data(loss)};
  });
  return Var::FromOp("squared_error", loss, {x_var, Var(target)}, [=](OpGradient& op) {
    const Tensor& dloss = op.output_grad();
    // dx = 2 (x - target) / n dloss
    Contribute(op, 0, x, [&]<class T>(const Grad& dx) {
      return kernels::SquaredErrorGrad<T>{
          .x = Data(x), .target = Data(target), .dloss = Data(dloss), .n = n, .dx = dx};
    });
  });
}

}  // namespace gradsync::model
