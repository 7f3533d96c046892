#include "model/vision/resnet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/base/test_errors.h"
#include "model/vision/test_resnet.h"

namespace gradsync::model {
namespace {

TEST(ResNetTest, InitialWeightsDependOnSeedAndPlaceAlone) {
  const ResNet one(MicroResNet(), CpuDevice(1), DType::kF32, 7),
      two(MicroResNet(), CpuDevice(2), DType::kF32, 7), other(MicroResNet(), CpuDevice(1), DType::kF32, 8);
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const std::vector<float> values = one.parameters()[i]->value().ToVector<float>();
    EXPECT_EQ(values, two.parameters()[i]->value().ToVector<float>());
    const bool is_norm = !values.empty() && one.parameters()[i]->value().rank() == 1 &&
                         one.parameters()[i]->name() != "fc.bias";
    EXPECT_EQ(values == other.parameters()[i]->value().ToVector<float>(), is_norm)
        << one.parameters()[i]->name();
  }
}

TEST(ResNetTest, InitialWeightsHaveTheirSpread) {
  const ResNet model(ResNet50Config(), CpuDevice(2), DType::kF32, 0);
  std::map<std::string, std::vector<float>> weights;
  for (const Parameter* p : model.parameters()) weights[p->name()] = p->value().ToVector<float>();
  const auto deviation = [&](const std::string& name) {
    double squares = 0;
    for (const float value : weights.at(name))
      squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares / static_cast<double>(weights.at(name).size()));
  };
  // A normal distribution cut off at 3 standard deviations keeps 0.9866 of its own.
  EXPECT_NEAR(deviation("conv1.weight"), 0.9866 * std::sqrt(2.0 / (64 * 49)), 3e-4);
  EXPECT_NEAR(deviation("layer4.2.conv2.weight"), 0.9866 * std::sqrt(2.0 / (512 * 9)), 3e-5);
  EXPECT_NEAR(deviation("layer4.0.downsample.0.weight"), 0.9866 * std::sqrt(2.0 / 2048), 5e-5);
  const auto [low, high] = std::ranges::minmax(weights.at("fc.weight"));
  const double bound = 1 / std::sqrt(2048.0);
  EXPECT_NEAR(low, -bound, 1e-6);
  EXPECT_NEAR(high, bound, 1e-6);
  EXPECT_EQ(weights.at("layer3.5.bn3.weight"), std::vector<float>(1024, 1.0f));
  EXPECT_EQ(weights.at("layer3.5.bn3.bias"), std::vector<float>(1024, 0.0f));
}

TEST(ResNetTest, EveryParameterIsReadyOnceTheLastLayersFirst) {
  const DevicePtr device = CpuDevice();
  ResNet model(MicroResNet(), device, DType::kF32, 0);
  std::vector<std::string> order;
  Backward(model.Loss(RandomImages(device, 2, 64, 64, 10)), model.parameters(),
           [&](Parameter& p) { order.push_back(p.name()); });
  std::vector<std::string> names;
  for (const Parameter* p : model.parameters()) names.push_back(p->name());
  EXPECT_THAT(order, testing::UnorderedElementsAreArray(names));
  EXPECT_EQ(order.front(), "fc.bias");
  EXPECT_EQ(order.back(), "conv1.weight");
  const auto place = [&](const std::string& name) { return std::ranges::find(order, name) - order.begin(); };
  EXPECT_LT(place("layer4.0.conv1.weight"), place("layer3.0.bn3.weight"));
}

// The stem, four stages, and fc: all parameters in forward order, each unit's reads before the next one's.
TEST(ResNetTest, UnitsAreReadOneAfterTheOther) {
  const DevicePtr device = CpuDevice();
  ResNet model(MicroResNet(), device, DType::kF32, 0);
  std::vector<Parameter*> all;
  std::vector<size_t> sizes, read;
  for (const std::vector<Parameter*>& unit : model.units()) {
    for (Parameter* const param : unit) param->SetOnRead([&read, u = sizes.size()] { read.push_back(u); });
    all.insert(all.end(), unit.begin(), unit.end());
    sizes.push_back(unit.size());
  }
  EXPECT_THAT(sizes, testing::ElementsAre(3, 12, 21, 12, 12, 2));
  EXPECT_TRUE(std::ranges::equal(all, model.parameters()));
  model.Loss(RandomImages(device, 1, 64, 64, 10));
  EXPECT_EQ(read.size(), all.size());
  EXPECT_TRUE(std::ranges::is_sorted(read));
}

// Whatever the width, in blocks of channels or without: one pixel of the image is enough, with two images.
TEST(ResNetTest, OtherWidthsAndTheSmallestImage) {
  const DevicePtr device = CpuDevice();
  for (const int64_t width : {1, 3, 16}) {
    ResNet model({.name = "other", .num_blocks = {1, 1, 1, 1}, .width = width, .num_classes = 2}, device,
                 DType::kF32, 0);
    const Var loss = model.Loss(RandomImages(device, 2, 1, 1, 2));
    Backward(loss, model.parameters());
    EXPECT_TRUE(std::isfinite(loss.value().ToVector<float>()[0])) << width;
  }
}

TEST(ResNetTest, RefusesWhatCannotWork) {
  using testing::HasSubstr;
  const DevicePtr device = CpuDevice();
  ResNetConfig config = MicroResNet();
  config.width = 0;
  EXPECT_THAT(ErrorOf([&] { ResNet(config, device, DType::kF32, 0); }),
              HasSubstr("model 'micro': width is 0, expected 1 to 65536"));
  config = MicroResNet();
  config.num_blocks[2] = -1;
  EXPECT_THAT(ErrorOf([&] { Validate(config); }), HasSubstr("num_blocks is -1"));
  config = MicroResNet();
  config.num_classes = 1 << 20;
  EXPECT_THAT(ErrorOf([&] { Validate(config); }), HasSubstr("num_classes is 1048576"));

  ResNet model(MicroResNet(), device, DType::kF32, 0);
  Batch batch = RandomImages(device, 2, 64, 64, 9);
  EXPECT_THAT(ErrorOf([&] { model.Loss(batch); }), HasSubstr("targets (2, 9), expected"));
  batch.targets = Tensor::Zeros(device, {3, 10}, DType::kF32);
  EXPECT_THAT(ErrorOf([&] { model.Loss(batch); }), HasSubstr("images are (2, 3, 64, 64), targets (3, 10)"));
  EXPECT_THAT(ErrorOf([&] {
                model.Predict(Tensor::Zeros(device, {2, 1, 8, 8}, DType::kF32));
              }),
              HasSubstr("images are (2, 1, 8, 8) f32"));
  EXPECT_THAT(ErrorOf([&] {
                model.Predict(Tensor::Zeros(device, {2, 3, 8, 8}, DType::kF64));
              }),
              HasSubstr("f64, expected (batch, 3, height, width) f32"));
  EXPECT_THAT(ErrorOf([&] {
                model.Predict(Tensor::Zeros(device, {1, 3, 8, 8}, DType::kF32));
              }),
              HasSubstr("one pixel per channel"));
}

}  // namespace
}  // namespace gradsync::model
