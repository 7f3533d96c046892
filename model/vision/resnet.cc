#include "model/vision/resnet.h"

#include <cmath>
#include <utility>

#include "model/functions.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

constexpr int64_t kImageChannels = 3;
// The ratio of the channels of a block's output to the channels inside the block.
constexpr int64_t kExpansion = 4;
constexpr int64_t kMaxSize = 65536;

Tensor Filled(const DevicePtr& device, Shape shape, DType dtype, double value) {
  Tensor tensor = Tensor::Empty(device, std::move(shape), dtype);
  Fill(tensor, value);
  return tensor;
}

}  // namespace

ResNetConfig ResNet50Config() {
  return {.name = "resnet50", .num_blocks = {3, 4, 6, 3}, .width = 64, .num_classes = 1000};
}

void Validate(const ResNetConfig& config) {
  const auto require = [&](std::string_view field, int64_t size) {
    Require(size >= 1 && size <= kMaxSize, "model '", config.name, "': ", field, " is ", size,
            ", expected 1 to ", kMaxSize);
  };
  for (const int64_t count : config.num_blocks) require("num_blocks", count);
  require("width", config.width);
  require("num_classes", config.num_classes);
}

std::vector<ConvNormShape> ConvNorms(const ResNetConfig& config) {
  std::vector<ConvNormShape> all = {{"conv1", "bn1", kImageChannels, config.width, 7, 2, 2}};
  int64_t in = config.width, reduction = 4;  // after the max pooling
  for (size_t stage = 0; stage < config.num_blocks.size(); ++stage) {
    const int64_t inside = config.width << stage, out = inside * kExpansion;
    for (int64_t i = 0; i < config.num_blocks[stage]; ++i) {
      const std::string prefix = Join("layer", stage + 1, ".", i, ".");
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      all.push_back({prefix + "conv1", prefix + "bn1", in, inside, 1, 1, reduction});
      reduction *= stride;
      all.push_back({prefix + "conv2", prefix + "bn2", inside, inside, 3, stride, reduction});
      all.push_back({prefix + "conv3", prefix + "bn3", inside, out, 1, 1, reduction});
      if (stride != 1 || in != out)
        all.push_back(
            {prefix + "downsample.0", prefix + "downsample.1", in, out, 1, stride, reduction, true});
      in = out;
    }
  }
  return all;
}

int64_t NumParameters(const ResNetConfig& config) {
  const std::vector<ConvNormShape> layers = ConvNorms(config);
  const ConvNormShape& last = layers.back();
  int64_t numel = (last.out + 1) * config.num_classes;
  for (const ConvNormShape& layer : layers) numel += layer.out * (layer.in * layer.size * layer.size + 2);
  return numel;
}

ResNet::ResNet(ResNetConfig config, DevicePtr device, DType dtype, uint64_t seed)
    : config_((Validate(config), std::move(config))), device_(std::move(device)), dtype_(dtype) {
  const std::vector<ConvNormShape> shapes = ConvNorms(config_);
  auto next = shapes.begin();
  stem_ = NewConvNorm(*next++);
  while (next != shapes.end()) {
    // Named members are initialised in the order of their declaration, which is the order of the shapes.
    Block block{.conv1 = NewConvNorm(*next++),
                .conv2 = NewConvNorm(*next++),
                .conv3 = NewConvNorm(*next++),
                .downsample = std::nullopt};
    if (next != shapes.end() && next->is_shortcut) block.downsample = NewConvNorm(*next++);
    blocks_.push_back(std::move(block));
  }
  fc_weight_ = NewParameter("fc.weight", {config_.num_classes, blocks_.back().conv3.bias->numel()});
  fc_bias_ = NewParameter("fc.bias", {config_.num_classes});
  fc_weight_->SetTable();
  Initialize(seed);
}

std::vector<std::vector<Parameter*>> ResNet::units() const {
  std::vector<std::vector<Parameter*>> units(config_.num_blocks.size() + 2);
  for (Parameter* const param : params_) {
    const std::string& name = param->name();
    const bool is_staged = name.starts_with("layer"), is_head = name.starts_with("fc.");
    units[is_head ? units.size() - 1 : is_staged ? static_cast<size_t>(name[5] - '0') : 0].push_back(param);
  }
  return units;
}

Parameter* ResNet::NewParameter(std::string name, Shape shape) {
  const bool copied = dtype_ == DType::kBF16 && shape.size() >= 2;
  owned_.push_back(std::make_unique<Parameter>(std::move(name),
                                               Tensor::Empty(device_, std::move(shape), WideDType(dtype_)),
                                               copied ? Parameter::Copy::kBF16 : Parameter::Copy::kNone));
  params_.push_back(owned_.back().get());
  return params_.back();
}

ResNet::ConvNorm ResNet::NewConvNorm(const ConvNormShape& shape) {
  const auto& [conv, norm, in, out, size, stride, reduction, is_shortcut] = shape;
  ConvNorm layer{
      .conv = NewParameter(conv + ".weight", {out, in, size, size}),
      .weight = NewParameter(norm + ".weight", {out}),
      .bias = NewParameter(norm + ".bias", {out}),
      .buffers = {.running_mean = Filled(device_, {out}, WideDType(dtype_), 0),
                  .running_var = Filled(device_, {out}, WideDType(dtype_), 1),
                  .num_batches_tracked = Tensor::Zeros(device_, {}, DType::kI64)},
      // The padding is half the kernel on each side, so that stride 1 keeps the size of the image.
      .options = {.stride = stride, .padding = size / 2, .out_block = ChannelBlock(*device_, dtype_, out)},
  };
  buffers_.push_back({norm + ".running_mean", layer.buffers.running_mean});
  buffers_.push_back({norm + ".running_var", layer.buffers.running_var});
  buffers_.push_back({norm + ".num_batches_tracked", layer.buffers.num_batches_tracked});
  return layer;
}

void ResNet::Initialize(uint64_t seed) {
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& value = params_[i]->MutableValue();
    const uint64_t stream = StreamOf(Purpose::kWeights, i);
    if (value.rank() == 4) {
      const double fan_out = static_cast<double>(value.dim(0) * value.dim(2) * value.dim(3));
      FillTruncatedNormal(value, std::sqrt(2 / fan_out), seed, stream);
    } else if (params_[i] == fc_weight_ || params_[i] == fc_bias_) {
      const double bound = 1 / std::sqrt(static_cast<double>(fc_weight_->value().dim(1)));
      FillUniform(value, -bound, bound, seed, stream);
    } else {
      const bool is_bias = params_[i]->name().ends_with(".bias");
      Fill(value, is_bias ? 0 : 1);
    }
  }
}

Var ResNet::Apply(const ConvNorm& layer, const Var& x, bool relu, const Var& residual) {
  return BatchNorm2d(Conv2d(x, *layer.conv, layer.options), *layer.weight, *layer.bias, layer.buffers,
                     {.relu = relu}, residual);
}

Var ResNet::Apply(const Block& block, const Var& x) {
  const Var h = Apply(block.conv2, Apply(block.conv1, x, /*relu=*/true), /*relu=*/true);
  const Var shortcut = block.downsample ? Apply(*block.downsample, x, /*relu=*/false) : x;
  return Apply(block.conv3, h, /*relu=*/true, shortcut);
}

Var ResNet::Predict(const Tensor& images) {
  const DType expected = WideDType(dtype_);
  Require(
      images.defined() && images.rank() == 4 && images.dim(1) == kImageChannels && images.dtype() == expected,
      "model '", config_.name, "': images are ", images.shape(), " ", Name(images.dtype()),
      ", expected (batch, ", kImageChannels, ", height, width) ", Name(expected));
  Shape shape = images.shape();
  shape.push_back(1);  // blocks of one channel
  Tensor pixels = images.View(std::move(shape));
  if (dtype_ == DType::kBF16) {
    const Tensor rounded = Tensor::Empty(device_, pixels.shape(), DType::kBF16);
    Cast(pixels, rounded);
    pixels = rounded;
  }
  Var x = MaxPool2d(Apply(stem_, Var(pixels), /*relu=*/true), 3, 2, 1);
  for (const Block& block : blocks_) x = Apply(block, x);
  return AddBias(Linear(GlobalAveragePool(x), *fc_weight_), *fc_bias_);
}

Var ResNet::Loss(const Batch& batch) {
  const Tensor &images = batch.inputs, &targets = batch.targets;
  Require(images.defined() && targets.defined() && images.rank() == 4 && targets.rank() == 2 &&
              images.dim(0) == targets.dim(0) && targets.dim(1) == config_.num_classes,
          "model '", config_.name, "': images are ", images.shape(), ", targets ", targets.shape(),
          ", expected (batch, ", kImageChannels, ", height, width) and (batch, ", config_.num_classes, ")");
  return MeanSquaredError(Predict(images), targets);
}

}  // namespace gradsync::model
