#include "model/vision_functions.h"

#include <string_view>

#include "model/function_support.h"
#include "model/kernels/batch_norm.h"
#include "model/kernels/conv.h"
#include "model/kernels/pool.h"
#include "model/kernels/regression.h"

namespace gradsync::model {
namespace {

namespace cpu = kernels::cpu;
namespace cuda = kernels::cuda;
using kernels::ActivationShape;

bool IsBlock(int64_t block) { return block == 1 || block == 8 || block == 16; }

ActivationShape Activation(std::string_view op, std::string_view name, const Tensor& x) {
  Require(
      x.defined() && x.rank() == 5 && IsBlock(x.dim(4)) && x.numel() > 0, op, ": ", name, " is ", Describe{x},
      ", expected (batch, channels / block, height, width, block), not empty, with a block of 1, 8 or 16");
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

// Windows of size x size pixels, `stride` apart.
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

}  // namespace

int64_t ChannelBlock(const Device& device, int64_t channels) {
  if (!device.is_cpu()) return 1;
  for (const int64_t block : {16, 8}) {
    if (block <= cpu::PreferredChannelBlock() && channels % block == 0) return block;
  }
  return 1;
}

Var Conv2d(const Var& x_var, const Var& weight_var, const Conv2dOptions& options) {
  const Tensor x = x_var.value(), weight = weight_var.value();
  const ActivationShape in = Activation("conv2d", "x", x);
  RequirePair(SameKind(x, weight) && weight.rank() == 4 && weight.dim(1) == in.channels &&
                  weight.dim(2) == weight.dim(3) && weight.dim(0) >= 1,
              "conv2d", "x", x, "weight", weight, "(out, in, size, size) of the same dtype and device");
  RequireWindows("conv2d", x, weight.dim(2), options.stride, options.padding);
  Require(IsBlock(options.out_block) && weight.dim(0) % options.out_block == 0, "conv2d: weight ",
          Describe{weight}, " has ", weight.dim(0), " output channels, asked for in blocks of ",
          options.out_block, ", expected a block of 1, 8 or 16 that divides them");
  const kernels::ConvShape shape{.in = in,
                                 .out_channels = weight.dim(0),
                                 .out_block = options.out_block,
                                 .size = weight.dim(2),
                                 .stride = options.stride,
                                 .padding = options.padding};
  const Tensor y = EmptyActivation(x, shape.out(), x.dtype());
  Device& device = *x.device();
  Run("conv2d", x, [&]<class T>() {
    On(device, cpu::Conv2d<T>, cuda::Conv2d<T>)(device, shape, x.data<T>(), weight.data<T>(), y.data<T>());
  });
  return Var::FromOp("conv2d", y, {x_var, weight_var}, [=, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    Run("conv2d", dy, [&]<class T>() {
      op.Contribute(1, [&](const Tensor& dweight, bool accumulate) {
        On(device, cpu::Conv2dWeightGrad<T>, cuda::Conv2dWeightGrad<T>)(
            device, shape, x.data<T>(), dy.data<T>(), dweight.data<Wide<T>>(), accumulate);
      });
      op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
        On(device, cpu::Conv2dInputGrad<T>, cuda::Conv2dInputGrad<T>)(device, shape, weight.data<T>(),
                                                                      dy.data<T>(), dx.data<T>(), accumulate);
      });
    });
  });
}

Var BatchNorm2d(const Var& x_var, const Var& weight_var, const Var& bias_var, const BatchNormBuffers& buffers,
                const BatchNormOptions& options, const Var& residual_var) {
  const Tensor x = x_var.value(), weight = weight_var.value(), bias = bias_var.value();
  const Tensor residual = residual_var.value();
  const ActivationShape shape = Activation("batch_norm", "x", x);
  RequireChannels("weight", weight, x, shape.channels);
  RequireChannels("bias", bias, x, shape.channels);
  RequireBuffers(buffers, x, shape.channels);
  const bool has_residual = residual.defined();
  RequirePair(!has_residual || SameShape(residual, x), "batch_norm", "x", x, "residual", residual,
              "one shape, dtype and device");
  Require(shape.batch * shape.pixels() >= 2, "batch_norm: x ", Describe{x},
          " has one pixel per channel, expected at least two to normalise");
  const Tensor y = EmptyLike(x), mean = EmptyLike(weight), r = EmptyLike(weight);
  Device& device = *x.device();
  Run("batch_norm", x, [&]<class T>() {
    using W = Wide<T>;
    const Tensor unbiased = EmptyLike(weight);
    const kernels::BatchNormInputs<T> in{.x = x.data<T>(),
                                         .weight = weight.data<W>(),
                                         .bias = bias.data<W>(),
                                         .residual = has_residual ? residual.data<T>() : nullptr,
                                         .relu = options.relu};
    On(device, cpu::BatchNorm<T>, cuda::BatchNorm<T>)(device, shape, in, options.eps, y.data<T>(),
                                                      mean.data<W>(), r.data<W>(), unbiased.data<W>());
    On(device, cpu::MoveAverage<W>, cuda::MoveAverage<W>)(device, mean.data<W>(), shape.channels,
                                                          options.momentum, buffers.running_mean.data<W>());
    On(device, cpu::MoveAverage<W>, cuda::MoveAverage<W>)(device, unbiased.data<W>(), shape.channels,
                                                          options.momentum, buffers.running_var.data<W>());
    On(device, cpu::AddOne, cuda::AddOne)(device, buffers.num_batches_tracked.data<int64_t>());
  });
  // Kept only if it is needed: it may be the largest of all.
  const Tensor kept_y = has_residual && options.relu ? y : Tensor();
  const bool shared = has_residual && residual.SameStorage(x);
  const bool relu = options.relu;
  return Var::FromOp(
      "batch_norm", y, {weight_var, bias_var, x_var, residual_var}, [=, &device](OpGradient& op) {
        ContributeTogether<4>(op, shared || weight.SameStorage(bias), [&](const Places<4>& grads) {
          const Tensor& dy = op.output_grad();
          Run("batch_norm", dy, [&]<class T>() {
            using W = Wide<T>;
            const kernels::BatchNormInputs<T> in{.x = x.data<T>(),
                                                 .weight = weight.data<W>(),
                                                 .bias = bias.data<W>(),
                                                 .residual = nullptr,
                                                 .relu = relu};
            On(device, cpu::BatchNormGrad<T>, cuda::BatchNormGrad<T>)(
                device, shape, in, mean.data<W>(), r.data<W>(), kept_y.defined() ? kept_y.data<T>() : nullptr,
                dy.data<T>(),
                {.dx = TargetOf<T>(grads[2]),
                 .dweight = TargetOf<W>(grads[0]),
                 .dbias = TargetOf<W>(grads[1]),
                 .dresidual = TargetOf<T>(grads[3])});
          });
        });
      });
}

Var MaxPool2d(const Var& x_var, int64_t size, int64_t stride, int64_t padding) {
  const Tensor& x = x_var.value();
  const ActivationShape in = Activation("max_pool2d", "x", x);
  RequireWindows("max_pool2d", x, size, stride, padding);
  Require(size <= 15 && padding < size, "max_pool2d: size is ", size, " and padding ", padding,
          ", expected at most 15 and less than the size");
  const kernels::PoolShape shape{.in = in, .size = size, .stride = stride, .padding = padding};
  const Tensor y = EmptyActivation(x, shape.out(), x.dtype());
  const Tensor largest = EmptyActivation(x, shape.out(), DType::kU8);
  Device& device = *x.device();
  Run("max_pool2d", x, [&]<class T>() {
    On(device, cpu::MaxPool<T>, cuda::MaxPool<T>)(device, shape, x.data<T>(), y.data<T>(),
                                                  largest.data<uint8_t>());
  });
  return Var::FromOp("max_pool2d", y, {x_var}, [shape, largest, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Run("max_pool2d", dy, [&]<class T>() {
        On(device, cpu::MaxPoolGrad<T>, cuda::MaxPoolGrad<T>)(device, shape, largest.data<uint8_t>(),
                                                              dy.data<T>(), dx.data<T>(), accumulate);
      });
    });
  });
}

Var GlobalAveragePool(const Var& x_var) {
  const Tensor& x = x_var.value();
  const ActivationShape shape = Activation("average_pool", "x", x);
  const Tensor y = Tensor::Empty(x.device(), {shape.batch, shape.channels}, x.dtype());
  Device& device = *x.device();
  Run("average_pool", x, [&]<class T>() {
    On(device, cpu::AveragePool<T>, cuda::AveragePool<T>)(device, shape, x.data<T>(), y.data<T>());
  });
  return Var::FromOp("average_pool", y, {x_var}, [shape, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Run("average_pool", dy, [&]<class T>() {
        On(device, cpu::AveragePoolGrad<T>, cuda::AveragePoolGrad<T>)(device, shape, dy.data<T>(),
                                                                      dx.data<T>(), accumulate);
      });
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
  Device& device = *x.device();
  Run("add_bias", x, [&]<class T>() {
    On(device, cpu::AddBias<T>, cuda::AddBias<T>)(device, x.data<T>(), bias.data<Wide<T>>(), rows, d,
                                                  y.data<T>());
  });
  return Var::FromOp("add_bias", y, {x_var, bias_var}, [rows, d, &device](OpGradient& op) {
    const Tensor& dy = op.output_grad();
    op.Contribute(1, [&](const Tensor& dbias, bool accumulate) {
      Run("add_bias", dy, [&]<class T>() {
        On(device, cpu::BiasGrad<T>, cuda::BiasGrad<T>)(device, dy.data<T>(), rows, d, dbias.data<Wide<T>>(),
                                                        accumulate);
      });
    });
    op.PassThrough(0);
  });
}

Var MeanSquaredError(const Var& x_var, const Tensor& target) {
  const Tensor x = x_var.value();
  RequirePair(WideOfSameKind(x, target) && x.shape() == target.shape() && x.numel() >= 1, "squared_error",
              "x", x, "target", target,
              "one shape, dtype (for bf16: f32 for the target) and device, not empty");
  const Tensor loss = Tensor::Empty(x.device(), {}, target.dtype());
  Device& device = *x.device();
  Run("squared_error", x, [&]<class T>() {
    On(device, cpu::SquaredError<T>, cuda::SquaredError<T>)(device, x.data<T>(), target.data<Wide<T>>(),
                                                            x.numel(), loss.data<Wide<T>>());
  });
  return Var::FromOp("squared_error", loss, {x_var}, [x, target, &device](OpGradient& op) {
    const Tensor& dloss = op.output_grad();
    op.Contribute(0, [&](const Tensor& dx, bool accumulate) {
      Run("squared_error", x, [&]<class T>() {
        On(device, cpu::SquaredErrorGrad<T>, cuda::SquaredErrorGrad<T>)(
            device, x.data<T>(), target.data<Wide<T>>(), dloss.data<Wide<T>>(), x.numel(), dx.data<T>(),
            accumulate);
      });
    });
  });
}

}  // namespace gradsync::model
