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
  // Number of channels of the output of the stem (the first convolution and the max pooling). The 3 x 3
  // convolutions of stage i (from 0) have width * 2^i channels.
  int64_t width = 0;
  int64_t num_classes = 0;
};

// Returns the sizes of ResNet-50, which has 161 parameters with 25,557,032 elements.
ResNetConfig ResNet50Config();
// Throws InvalidInput, naming the field, if a size is below 1 or above 65536.
void Validate(const ResNetConfig& config);

// The shapes of a convolution and of the batch normalisation after it.
struct ConvNormShape {
  std::string conv, norm;             // names of the convolution and the norm
  int64_t in = 0, out = 0, size = 0;  // channels of input and output; size of the square kernel
  // The height and width of the convolution's output are those of its input divided by `stride`, rounded up.
  // The output's height and width are also those of the model's input images divided by `reduction`, rounded
  // up.
  int64_t stride = 1, reduction = 1;
  bool is_shortcut = false;
};
// Returns the shapes of each convolution of the model and of the batch normalisation after it. The shapes are
// in the order of the model's parameters.
std::vector<ConvNormShape> ConvNorms(const ResNetConfig& config);
int64_t NumParameters(const ResNetConfig& config);

// A residual network of bottleneck blocks, arXiv:1512.03385, which is trained by the mean squared error to
// predict num_classes numbers for each image. As in torchvision, the stride of a block is in its 3 x 3
// convolution:
//
//   stem:  relu(bn1(conv1(x))), 7 x 7, stride 2; max pooling 3 x 3, stride 2
//   block: relu(bn3(conv3(h)) + x), h = relu(bn2(conv2(relu(bn1(conv1(x))))))
//          if shapes differ: downsample(x), a 1 x 1 convolution and its norm, instead of x
//   head:  fc(average of each channel)
//
// The names of parameters and buffers are those of torchvision: conv1.weight, bn1.weight, bn1.bias,
// layer1.0.conv1.weight, ..., layer1.0.downsample.0.weight, layer1.0.downsample.1.weight, ..., fc.weight,
// fc.bias, and the buffers bn1.running_mean, bn1.running_var, bn1.num_batches_tracked and so on. Batch
// normalisation always uses the mean and variance of the batch, not the running averages.
class ResNet : public Model {
 public:
  // Draws the initial weights. The weights of a convolution with `out` output channels and a kernel of size x
  // size are from a normal distribution of variance 2 / (out * size^2), truncated at 3 standard deviations.
  // Weight and bias of fc, which has `in` inputs, are from a uniform distribution between -1 / sqrt(in) and 1
  // / sqrt(in). The weights of batch normalisations are 1, and their biases are 0. Initial values depend on
  // `config` and `seed`, but not on `device` or `dtype`: they are rounded to f32 also for f64. `dtype` is
  // f32, f64 or bf16. With f32 or f64, activations, parameters, images, targets and the loss have the dtype
  // `dtype`. With bf16, activations are bf16; parameters, images, targets and the loss are f32. Throws
  // InvalidInput if a size in `config` is below 1 or above 65536.
  ResNet(ResNetConfig config, DevicePtr device, DType dtype, uint64_t seed);

  const ResNetConfig& config() const { return config_; }
  std::string_view name() const override { return config_.name; }
  std::span<Parameter* const> parameters() const override { return params_; }
  // Returns the parameters in six groups: those of the stem, of each of the four stages, and of fc.
  // Data-parallel strategies that shard parameters over ranks gather and free all parameters of one of these
  // groups together.
  std::vector<std::vector<Parameter*>> units() const override;
  std::span<const Buffer> buffers() const override { return buffers_; }

  // Returns the outputs (batch, num_classes) of the last layer, fc, for images (batch, 3, height, width), and
  // updates all tensors in buffers().
  Var Predict(const Tensor& images);
  // Returns the mean squared error between Predict(batch.inputs) and batch.targets, which both have the shape
  // (batch, num_classes).
  Var Loss(const Batch& batch) override;

 private:
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
