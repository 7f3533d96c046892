#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"
#include "model/vision/vision_functions.h"

namespace gradsync::model {

struct ResNetConfig {
  std::string name;
  std::array<int64_t, 4> num_blocks{};  // number of blocks in each of the four stages
  // Channels of the stem; inside a block, stage i has width * 2^i channels.
  int64_t width = 0;
  int64_t num_classes = 0;
};

// Returns the configuration of ResNet-50: blocks 3, 4, 6, 3, width 64, 1000 classes; 161 parameters of
// 25,557,032 elements.
ResNetConfig ResNet50Config();
// Throws InvalidInput, naming the field, for a size below 1 or above 65536.
void Validate(const ResNetConfig& config);

// A convolution and the norm after it.
struct ConvNormShape {
  std::string conv, norm;             // names of the convolution and the norm
  int64_t in = 0, out = 0, size = 0;  // channels of input and output; size of the square kernel
  // Reduction of the sides of images by this layer, and by all layers so far.
  int64_t stride = 1, reduction = 1;
  bool is_shortcut = false;
};
// Returns all convolutions with norms, in the order of their parameters.
std::vector<ConvNormShape> ConvNorms(const ResNetConfig& config);
// Returns the number of elements of all parameters.
int64_t NumParameters(const ResNetConfig& config);

// A residual network of bottleneck blocks, arXiv:1512.03385, trained on images to predict numbers. As in
// torchvision, the stride is in a block's 3 x 3 convolution:
//
//   stem   relu(bn1(conv1(x))), 7 x 7, stride 2; max pooling 3 x 3, stride 2 block  relu(bn3(conv3(h)) + x),
//   h = relu(bn2(conv2(relu(bn1(conv1(x)))))), with downsample(x), a 1 x 1 convolution and its norm, instead
//   of x if shapes differ head   fc(average of each channel)
//
// Names are torchvision's: conv1.weight, bn1.weight, bn1.bias, layer1.0.conv1.weight, ...,
// layer1.0.downsample.0.weight, layer1.0.downsample.1.weight, ..., fc.weight, fc.bias; buffers are
// bn1.running_mean, bn1.running_var, bn1.num_batches_tracked and so on. Batch normalisation always uses the
// batch's own statistics.
//
// Activations are in the channel blocks that are fastest on the device.
class ResNet : public Model {
 public:
  // Draws the initial weights: convolutions from a normal distribution of variance 2 / (out * size^2), cut
  // off at 3 standard deviations; fc uniform within 1 / sqrt(in); norms 1 and 0. The weights depend only on
  // `seed` and on the parameter's position. dtype is the type of activations: f32, f64 or bf16. For bf16,
  // parameters, buffers, images, targets and the loss are f32. Throws InvalidInput as Validate does.
  ResNet(ResNetConfig config, DevicePtr device, DType dtype, uint64_t seed);

  const ResNetConfig& config() const { return config_; }
  std::string_view name() const override { return config_.name; }
  std::span<Parameter* const> parameters() const override { return params_; }
  // Returns the units: the stem, each of the four stages, and fc.
  std::vector<std::vector<Parameter*>> units() const override;
  std::span<const Buffer> buffers() const override { return buffers_; }

  // Computes predictions. images (batch, 3, height, width) -> (batch, num_classes). Each call updates the
  // buffers.
  Var Predict(const Tensor& images);
  // Returns the mean squared error. targets (batch, num_classes).
  Var Loss(const Batch& batch) override;

 private:
  // A convolution and the norm after it.
  struct ConvNorm {
    Parameter *conv, *weight, *bias;
    BatchNormBuffers buffers;
    Conv2dOptions options;
  };
  struct Block {
    ConvNorm conv1, conv2, conv3;
    std::optional<ConvNorm> downsample;
  };

  Parameter* NewParameter(std::string name, Shape shape);
  ConvNorm NewConvNorm(const ConvNormShape& shape);
  void Initialize(uint64_t seed);
  static Var Apply(const ConvNorm& layer, const Var& x, bool relu, const Var& residual = Var());
  static Var Apply(const Block& block, const Var& x);

  const ResNetConfig config_;
  const DevicePtr device_;
  const DType dtype_;
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> params_;
  std::vector<Buffer> buffers_;
  ConvNorm stem_;
  std::vector<Block> blocks_;
  Parameter* fc_weight_ = nullptr;
  Parameter* fc_bias_ = nullptr;
};

}  // namespace gradsync::model
