#include "model/vision/vision_cases.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "model/vision/vision_functions.h"

namespace gradsync::model {
namespace {

using Values = std::vector<double>;

size_t Size(int64_t n) { return static_cast<size_t>(n); }

struct Image {
  int64_t batch, channels, height, width, block;

  Shape shape() const { return {batch, channels / block, height, width, block}; }
  int64_t pixels() const { return height * width; }
  int64_t numel() const { return batch * channels * pixels(); }
  std::string label() const { return Join(batch, "_", channels, "_", height, "_", width, "_block_", block); }
};

// Returns the position of each element (n, c, pixel) in channel blocks, in the order of (batch, channels,
// pixels).
std::vector<size_t> Positions(const Image& image) {
  std::vector<size_t> positions;
  for (int64_t n = 0; n < image.batch; ++n) {
    for (int64_t c = 0; c < image.channels; ++c) {
      for (int64_t pixel = 0; pixel < image.pixels(); ++pixel) {
        const int64_t block_row = (n * (image.channels / image.block) + c / image.block) * image.pixels();
        positions.push_back(Size((block_row + pixel) * image.block + c % image.block));
      }
    }
  }
  return positions;
}

Values FromBlocks(const Image& image, const Values& blocked) {
  Values values;
  for (const size_t position : Positions(image)) values.push_back(blocked[position]);
  return values;
}

Values ToBlocks(const Image& image, const Values& values) {
  Values blocked(values.size());
  size_t i = 0;
  for (const size_t position : Positions(image)) blocked[position] = values[i++];
  return blocked;
}

struct Conv {
  int64_t out, size, stride, padding, out_block;
};

PlainResult PlainConv(const Image& in, const Image& out, const Conv& conv, const std::vector<Values>& inputs,
                      const Values& blocked_dy) {
  const Values x = FromBlocks(in, inputs[0]), dy = FromBlocks(out, blocked_dy);
  const Values& weight = inputs[1];
  Values y(Size(out.numel())), dx(x.size()), dweight(weight.size());
  // Computes one tap of the kernel at a time, over all pixels.
  for (int64_t o = 0; o < out.channels; ++o) {
    for (int64_t c = 0; c < in.channels; ++c) {
      for (int64_t tap = 0; tap < conv.size * conv.size; ++tap) {
        const size_t w = Size((o * in.channels + c) * conv.size * conv.size + tap);
        for (int64_t n = 0; n < in.batch; ++n) {
          for (int64_t row = 0; row < out.height; ++row) {
            const int64_t in_row = row * conv.stride + tap / conv.size - conv.padding;
            if (in_row < 0 || in_row >= in.height) continue;
            for (int64_t col = 0; col < out.width; ++col) {
              const int64_t in_col = col * conv.stride + tap % conv.size - conv.padding;
              if (in_col < 0 || in_col >= in.width) continue;
              const size_t from = Size(((n * in.channels + c) * in.height + in_row) * in.width + in_col);
              const size_t to = Size(((n * out.channels + o) * out.height + row) * out.width + col);
              y[to] += x[from] * weight[w];
              dx[from] += dy[to] * weight[w];
              dweight[w] += dy[to] * x[from];
            }
          }
        }
      }
    }
  }
  return {ToBlocks(out, y), {ToBlocks(in, dx), dweight}};
}

FunctionCase ConvCase(Image in, Conv conv) {
  const Image out{.batch = in.batch,
                  .channels = conv.out,
                  .height = (in.height + 2 * conv.padding - conv.size) / conv.stride + 1,
                  .width = (in.width + 2 * conv.padding - conv.size) / conv.stride + 1,
                  .block = conv.out_block};
  const Conv2dOptions options{.stride = conv.stride, .padding = conv.padding, .out_block = conv.out_block};
  return {.name = Join("Conv2d_", in.label(), "_to_", conv.out, "_size_", conv.size, "_stride_", conv.stride,
                       "_padding_", conv.padding, "_block_", conv.out_block),
          .inputs = {in.shape(), {conv.out, in.channels, conv.size, conv.size}},
          .roles = {Role::kActivation, Role::kMatrix},
          .function = [=](const std::vector<Var>& v) { return Conv2d(v[0], v[1], options); },
          .plain = [=](const std::vector<Values>& inputs,
                       const Values& dy) { return PlainConv(in, out, conv, inputs, dy); },
          .longest_sum = std::max({in.channels * conv.size * conv.size, conv.out * conv.size * conv.size,
                                   out.batch * out.pixels()}),
          .same_for_any_threads = false};
}

BatchNormBuffers NewBuffers(const Tensor& like) {
  return {.running_mean = Tensor::Zeros(like.device(), like.shape(), like.dtype()),
          .running_var = Tensor::Zeros(like.device(), like.shape(), like.dtype()),
          .num_batches_tracked = Tensor::Zeros(like.device(), {}, DType::kI64)};
}

// Inputs are x, weight, bias and perhaps a residual.
PlainResult PlainBatchNorm(const Image& image, const BatchNormOptions& options,
                           const std::vector<Values>& inputs, const Values& blocked_dy) {
  const Values x = FromBlocks(image, inputs[0]), dy = FromBlocks(image, blocked_dy);
  const Values residual = inputs.size() > 3 ? FromBlocks(image, inputs[3]) : Values(x.size());
  Values y(x.size()), dx(x.size()), dresidual(x.size());
  Values dweight(Size(image.channels)), dbias(Size(image.channels));
  const double count = static_cast<double>(image.batch * image.pixels());
  for (int64_t c = 0; c < image.channels; ++c) {
    std::vector<size_t> at;
    for (int64_t n = 0; n < image.batch; ++n) {
      for (int64_t pixel = 0; pixel < image.pixels(); ++pixel)
        at.push_back(Size((n * image.channels + c) * image.pixels() + pixel));
    }
    double mean = 0, variance = 0;
    for (const size_t i : at) mean += x[i] / count;
    for (const size_t i : at) variance += (x[i] - mean) * (x[i] - mean) / count;
    const double deviation = std::sqrt(variance + options.eps);
    const double weight = inputs[1][Size(c)];
    double sum_g = 0, sum_gx = 0;
    for (const size_t i : at) {
      const double normal = (x[i] - mean) / deviation;
      const double value = normal * weight + inputs[2][Size(c)] + residual[i];
      const bool passes = !options.relu || value > 0;
      y[i] = passes ? value : 0;
      dresidual[i] = passes ? dy[i] : 0;
      sum_g += dresidual[i];
      sum_gx += dresidual[i] * normal;
    }
    dbias[Size(c)] = sum_g;
    dweight[Size(c)] = sum_gx;
    // The gradient has three parts: through the normalised value itself, through the mean, and through the
    // deviation.
    for (const size_t i : at) {
      const double normal = (x[i] - mean) / deviation;
      dx[i] = weight / deviation * (dresidual[i] - sum_g / count - normal * sum_gx / count);
    }
  }
  PlainResult result{ToBlocks(image, y), {ToBlocks(image, dx), dweight, dbias}};
  if (inputs.size() > 3) result.input_grads.push_back(ToBlocks(image, dresidual));
  return result;
}

FunctionCase BatchNormCase(Image image, bool relu, bool with_residual) {
  const BatchNormOptions options{.eps = 1e-2, .relu = relu};
  std::vector<Shape> shapes{image.shape(), {image.channels}, {image.channels}};
  std::vector<Role> roles{Role::kActivation, Role::kVector, Role::kVector};
  if (with_residual) {
    shapes.push_back(image.shape());
    roles.push_back(Role::kActivation);
  }
  const auto function = [=](const std::vector<Var>& v) {
    return BatchNorm2d(v[0], v[1], v[2], NewBuffers(v[1].value()), options, with_residual ? v[3] : Var());
  };
  return {.name = "BatchNorm2d_" + image.label() + (with_residual ? "_residual" : "") + (relu ? "_relu" : ""),
          .inputs = shapes,
          .roles = roles,
          .function = function,
          .plain = [=](const std::vector<Values>& inputs,
                       const Values& dy) { return PlainBatchNorm(image, options, inputs, dy); },
          .longest_sum = image.batch * image.pixels()};
}

FunctionCase MaxPoolCase(Image in, int64_t size, int64_t stride, int64_t padding) {
  const Image out{.batch = in.batch,
                  .channels = in.channels,
                  .height = (in.height + 2 * padding - size) / stride + 1,
                  .width = (in.width + 2 * padding - size) / stride + 1,
                  .block = in.block};
  const auto plain = [=](const std::vector<Values>& inputs, const Values& blocked_dy) {
    const Values x = FromBlocks(in, inputs[0]), dy = FromBlocks(out, blocked_dy);
    Values y(Size(out.numel())), dx(x.size());
    for (int64_t i = 0; i < out.numel(); ++i) {
      const int64_t plane = i / out.pixels(), row = i % out.pixels() / out.width, col = i % out.width;
      std::vector<std::pair<double, size_t>> window;
      for (int64_t tap = 0; tap < size * size; ++tap) {
        const int64_t in_row = row * stride - padding + tap / size;
        const int64_t in_col = col * stride - padding + tap % size;
        if (in_row < 0 || in_row >= in.height || in_col < 0 || in_col >= in.width) continue;
        const size_t at = Size(plane * in.pixels() + in_row * in.width + in_col);
        window.emplace_back(x[at], at);
      }
      // Of equal elements, which are frequent in bf16, the first is the maximum.
      const auto smaller = [](const auto& a, const auto& b) { return a.first < b.first; };
      const auto [value, at] = *std::max_element(window.begin(), window.end(), smaller);
      y[Size(i)] = value;
      dx[at] += dy[Size(i)];
    }
    return PlainResult{ToBlocks(out, y), {ToBlocks(in, dx)}};
  };
  return {.name = "MaxPool2d_" + in.label() + "_size_" + std::to_string(size) + "_stride_" +
                  std::to_string(stride) + "_padding_" + std::to_string(padding),
          .inputs = {in.shape()},
          .function = [=](const std::vector<Var>& v) { return MaxPool2d(v[0], size, stride, padding); },
          .plain = plain,
          .longest_sum = size * size};
}

FunctionCase AveragePoolCase(Image image) {
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    const Values x = FromBlocks(image, inputs[0]);
    Values y(dy.size()), dx(x.size());
    const double pixels = static_cast<double>(image.pixels());
    for (size_t i = 0; i < x.size(); ++i) {
      y[i / Size(image.pixels())] += x[i] / pixels;
      dx[i] = dy[i / Size(image.pixels())] / pixels;
    }
    return PlainResult{y, {ToBlocks(image, dx)}};
  };
  return {.name = "GlobalAveragePool_" + image.label(),
          .inputs = {image.shape()},
          .function = [](const std::vector<Var>& v) { return GlobalAveragePool(v[0]); },
          .plain = plain,
          .longest_sum = image.pixels()};
}

FunctionCase AddBiasCase(int64_t rows, int64_t d) {
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{inputs[0], {dy, Values(Size(d))}};
    for (size_t i = 0; i < dy.size(); ++i) {
      result.output[i] += inputs[1][i % Size(d)];
      result.input_grads[1][i % Size(d)] += dy[i];
    }
    return result;
  };
  return {.name = "AddBias_" + std::to_string(rows) + "_" + std::to_string(d),
          .inputs = {{rows, d}, {d}},
          .roles = {Role::kActivation, Role::kVector},
          .function = [](const std::vector<Var>& v) { return AddBias(v[0], v[1]); },
          .plain = plain,
          .longest_sum = rows};
}

FunctionCase SquaredErrorCase(Shape shape) {
  const int64_t numel = Numel(shape);
  const auto target = [](int64_t i) { return static_cast<double>(i % 5) / 4 - 0.5; };
  const auto plain = [=](const std::vector<Values>& inputs, const Values& dy) {
    PlainResult result{Values(1), {Values(Size(numel))}};
    for (int64_t i = 0; i < numel; ++i) {
      const double error = inputs[0][Size(i)] - target(i);
      result.output[0] += error * error / static_cast<double>(numel);
      result.input_grads[0][Size(i)] = 2 * error / static_cast<double>(numel) * dy[0];
    }
    return result;
  };
  const auto function = [=](const std::vector<Var>& v) {
    const Tensor& x = v[0].value();
    Tensor targets;
    DispatchFloat(WideDType(x.dtype()), "test", [&]<class T>() {
      std::vector<T> values;
      for (int64_t i = 0; i < numel; ++i) values.push_back(static_cast<T>(target(i)));
      targets = Tensor::From<T>(x.device(), shape, std::span<const T>(values));
    });
    return MeanSquaredError(v[0], targets);
  };
  return {.name = "MeanSquaredError_" + std::to_string(shape.size()) + "d_" + std::to_string(numel),
          .inputs = {shape},
          .function = function,
          .plain = plain,
          .longest_sum = numel};
}

struct ConvSizes {
  Image in;
  Conv conv;
};

const std::vector<ConvSizes>& SmallConvs() {
  static const std::vector<ConvSizes> convs{
      {{1, 1, 1, 1, 1}, {1, 1, 1, 0, 1}},   {{2, 3, 5, 4, 1}, {2, 3, 1, 1, 1}},
      {{1, 2, 7, 6, 1}, {3, 3, 2, 1, 1}},   {{2, 2, 4, 6, 1}, {3, 2, 3, 0, 1}},
      {{1, 3, 8, 7, 1}, {8, 7, 2, 3, 8}},   {{2, 8, 3, 2, 8}, {8, 1, 1, 0, 8}},
      {{1, 16, 4, 3, 8}, {8, 1, 2, 0, 8}},  {{1, 8, 3, 4, 8}, {8, 3, 1, 1, 8}},
      {{1, 8, 5, 4, 8}, {8, 3, 2, 1, 8}},   {{1, 16, 2, 3, 16}, {16, 1, 1, 0, 16}},
      {{1, 8, 3, 3, 1}, {16, 1, 1, 1, 16}}, {{2, 16, 4, 2, 16}, {16, 3, 3, 1, 16}},
  };
  return convs;
}

// CUDA has only blocks of one channel or of all channels.
Image ForCuda(Image image) {
  if (image.block > 1) image.block = image.channels;
  return image;
}

std::vector<FunctionCase> SmallCasesWithoutConvs(Image (*with_blocks)(Image)) {
  std::vector<FunctionCase> cases;
  for (const Image& image : {Image{2, 3, 1, 1, 1}, Image{3, 2, 3, 5, 1}, Image{2, 8, 3, 3, 8},
                             Image{2, 16, 1, 3, 8}, Image{1, 16, 2, 2, 16}}) {
    for (const bool relu : {false, true}) {
      for (const bool residual : {false, true})
        cases.push_back(BatchNormCase(with_blocks(image), relu, residual));
    }
  }
  for (FunctionCase& c : std::vector<FunctionCase>{
           MaxPoolCase({1, 1, 1, 1, 1}, 3, 2, 1), MaxPoolCase({2, 3, 7, 6, 1}, 3, 2, 1),
           MaxPoolCase(with_blocks({1, 8, 5, 8, 8}), 3, 2, 1),
           MaxPoolCase(with_blocks({1, 16, 5, 4, 16}), 2, 1, 0), MaxPoolCase({2, 2, 9, 7, 1}, 2, 3, 0),
           AveragePoolCase({1, 1, 1, 1, 1}), AveragePoolCase({2, 3, 3, 5, 1}),
           AveragePoolCase(with_blocks({2, 16, 2, 3, 8})), AveragePoolCase(with_blocks({1, 32, 2, 2, 16})),
           AddBiasCase(1, 1), AddBiasCase(3, 5), SquaredErrorCase({1}), SquaredErrorCase({3, 7})})
    cases.push_back(std::move(c));
  return cases;
}

// block_of(channels) returns the block for this number of channels.
std::vector<FunctionCase> LargeCases(const std::function<int64_t(int64_t)>& block_of) {
  return {ConvCase({2, 3, 33, 30, 1}, {32, 7, 2, 3, block_of(32)}),
          ConvCase({2, 32, 14, 15, block_of(32)}, {64, 3, 1, 1, block_of(64)}),
          ConvCase({2, 64, 15, 14, block_of(64)}, {32, 3, 2, 1, block_of(32)}),
          ConvCase({3, 64, 14, 14, block_of(64)}, {96, 1, 1, 0, block_of(96)}),
          ConvCase({3, 128, 13, 14, block_of(128)}, {64, 1, 2, 0, block_of(64)}),
          ConvCase({3, 12, 15, 13, 1}, {20, 3, 2, 1, 1}),
          ConvCase({3, 12, 15, 13, 1}, {20, 1, 1, 0, 1}),
          BatchNormCase({3, 64, 29, 28, block_of(64)}, true, true),
          BatchNormCase({3, 64, 29, 28, block_of(64)}, true, false),
          BatchNormCase({2, 6, 51, 51, 1}, false, true),
          MaxPoolCase({2, 64, 29, 28, block_of(64)}, 3, 2, 1),
          MaxPoolCase({2, 6, 41, 51, 1}, 3, 2, 1),
          AveragePoolCase({5, 256, 7, 7, block_of(256)}),
          AddBiasCase(37, 1000),
          SquaredErrorCase({9, 1000})};
}

}  // namespace

std::vector<FunctionCase> SmallVisionCases() {
  std::vector<FunctionCase> cases = SmallCasesWithoutConvs([](Image image) { return image; });
  for (const auto& [in, conv] : SmallConvs()) cases.push_back(ConvCase(in, conv));
  return WithBF16(std::move(cases));
}

std::vector<FunctionCase> LargeVisionCases() {
  return WithBF16(
      LargeCases([](int64_t /*channels*/) { return ChannelBlock(*CpuDevice(), DType::kF32, 64); }));
}

std::vector<FunctionCase> CudaVisionCases() {
  const auto all = [](int64_t channels) { return channels; };
  std::vector<FunctionCase> cases = SmallCasesWithoutConvs(ForCuda);
  for (const auto& [in, conv] : SmallConvs()) {
    Conv on_cuda = conv;
    if (conv.out_block > 1) on_cuda.out_block = conv.out;
    cases.push_back(ConvCase(ForCuda(in), on_cuda));
  }
  for (FunctionCase& c : LargeCases(all)) cases.push_back(std::move(c));
  // The cases have numbers of channels that are not a multiple of a pack, strips of channels of which the
  // last is incomplete, and planes that are a multiple of a pack.
  for (const Image& image : {Image{2, 6, 3, 3, 6}, Image{2, 70, 2, 3, 70}, Image{2, 3, 2, 8, 1}}) {
    cases.push_back(BatchNormCase(image, true, true));
  }
  for (FunctionCase& c : cases) {
    // cuDNN supports f64 only in blocks of one channel.
    if (c.name.starts_with("Conv2d") && !c.name.ends_with("_block_1")) c.dtypes = {DType::kF32};
  }
  return WithBF16(std::move(cases));
}

}  // namespace gradsync::model
