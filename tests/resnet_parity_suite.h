#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/files/safetensors.h"
#include "model/vision/resnet.h"
#include "tests/parity.h"

// Compares the residual network with PyTorch: tests/fixtures/make_resnet_fixture.py made the file of results
// and describes its contents. Include this header in one source file of a test; that file selects the device.
namespace gradsync::model {

inline constexpr char kFixture[] = "tests/fixtures/resnet.safetensors";

struct ResNetParityCase {
  std::string name;
  DType dtype;
  std::function<DevicePtr()> device;
  // Bounds the relative error of the loss, of each buffer and, except in bf16, of each gradient. The file has
  // f32, so f64 is compared with half an ulp of f32. In f32 each of the 19 layers, forward and backward, adds
  // the rounding of sums of up to 576 terms, at most sqrt(576) * 6e-8 = 1.4e-6, in a random direction.
  double tolerance;
};

// Each operation in bf16 rounds by up to u = 2^-8 with a random sign, so that n roundings add up to less than
// sqrt(n) u. There are about fifty operations up to the last layer. Gradients are much less precise (see the
// fixture). Their distance from PyTorch's f64 run must not exceed the distance of the gradients of PyTorch's
// autocast, which also rounds between a batch norm and its rectifier.
inline constexpr double kToleranceBF16 = 8 * 0x1p-8;

class ResNetParityTest : public testing::TestWithParam<ResNetParityCase> {
 protected:
  ResNetParityTest() : model_(Config(), device_, GetParam().dtype, 0) {
    for (Parameter* p : model_.parameters()) p->MutableValue().CopyFrom(Load("weight/" + p->name()));
  }

  // Loads a tensor in the dtype of the test's parameters.
  Tensor Load(const std::string& name) const {
    const Tensor stored = file_.Load(name, device_);
    const std::vector<double> wide = ToDoubles(stored);
    return DispatchFloat(WideDType(GetParam().dtype), "parity", [&]<class T>() {
      const std::vector<T> values(wide.begin(), wide.end());
      return Tensor::From<T>(device_, stored.shape(), std::span<const T>(values));
    });
  }

  ResNetConfig Config() const {
    const std::vector<int64_t> values = file_.Load("config", device_).ToVector<int64_t>();
    return {.name = "fixture",
            .num_blocks = {values.at(0), values.at(1), values.at(2), values.at(3)},
            .width = values.at(4),
            .num_classes = values.at(5)};
  }

  void ExpectClose(const Tensor& actual, const std::string& name, double tolerance) const {
    const Tensor expected = file_.Load(name, device_);
    EXPECT_EQ(actual.shape(), expected.shape()) << name;
    const double error = RelativeError(ToDoubles(actual), ToDoubles(expected));
    EXPECT_LT(error, tolerance) << name;
  }

  double GradTolerance(const std::string& parameter) const {
    if (GetParam().dtype != DType::kBF16) return GetParam().tolerance;
    return ToDoubles(file_.Load("autocast/" + parameter, device_))[0];
  }

  const DevicePtr device_ = GetParam().device();
  const SafetensorsFile file_ = SafetensorsFile::Open(kFixture);
  const Batch batch_{.inputs = Load("inputs"), .targets = Load("targets")};
  ResNet model_;
};

TEST_P(ResNetParityTest, LossAndEveryGradient) {
  const Var loss = model_.Loss(batch_);
  ExpectClose(loss.value(), "loss", GetParam().tolerance);
  Backward(loss, model_.parameters());
  for (Parameter* p : model_.parameters()) {
    ExpectClose(p->grad(), "grad/" + p->name(), GradTolerance(p->name()));
  }
}

TEST_P(ResNetParityTest, BuffersAfterTwoPasses) {
  for (int pass = 0; pass < 2; ++pass) model_.Loss(batch_);
  for (const Buffer& buffer : model_.buffers()) {
    if (buffer.value.dtype() == DType::kI64) {
      EXPECT_EQ(buffer.value.ToVector<int64_t>(),
                file_.Load("buffer/" + buffer.name, device_).ToVector<int64_t>())
          << buffer.name;
    } else {
      ExpectClose(buffer.value, "buffer/" + buffer.name, GetParam().tolerance);
    }
  }
}

inline std::string ResNetParityCaseName(const testing::TestParamInfo<ResNetParityCase>& test) {
  return test.param.name;
}

}  // namespace gradsync::model
