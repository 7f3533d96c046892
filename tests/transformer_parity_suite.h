#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/safetensors.h"
#include "model/optimizer.h"
#include "model/transformer/transformer.h"
#include "tests/parity.h"

// Compares the transformer and the optimizers with PyTorch: tests/fixtures/make_transformer_fixture.py made
// the file of results and describes its contents. Include this header in one source file of a test; that file
// selects the device.
namespace gradsync::model {

constexpr char kFixture[] = "tests/fixtures/transformer.safetensors";
constexpr int kSteps = 3;

struct ParityCase {
  std::string name;
  DType dtype;
  std::function<DevicePtr()> device;
  double tolerance;  // largest relative error of the loss, of each gradient and of each trained parameter
};

// Each operation in bf16 rounds by up to u = 2^-8 with a random sign, so that the errors of n operations
// before a gradient add up to less than sqrt(n) u. A layer has about twenty operations, forward and backward.
constexpr double kToleranceBF16 = 8 * 0x1p-8;

class TransformerParityTest : public testing::TestWithParam<ParityCase> {
 protected:
  TransformerParityTest() : model_(Config(), device_, GetParam().dtype, 0) {
    for (Parameter* p : model_.parameters()) {
      const Tensor weight = Load("weight/" + p->name());
      DispatchFloat(p->dtype(), "parity", [&]<class T>() {
        const std::vector<float> values = weight.ToVector<float>();
        const std::vector<T> wide(values.begin(), values.end());
        p->MutableValue().CopyFrom(Tensor::From<T>(device_, weight.shape(), std::span<const T>(wide)));
      });
    }
  }

  Tensor Load(const std::string& name) const { return file_.Load(name, device_); }

  TransformerConfig Config() const {
    const std::vector<int64_t> values = Load("config").ToVector<int64_t>();
    return {.name = "fixture",
            .d_model = values.at(2),
            .d_ff = values.at(3),
            .num_layers = values.at(4),
            .num_heads = values.at(5),
            .vocab_size = values.at(0),
            .context_length = values.at(1)};
  }

  // Compares a tensor with PyTorch's f64 run, whose rounding is negligible, and with PyTorch's run in the
  // parameters' dtype.
  void ExpectClose(const Tensor& actual, const std::string& name) const {
    for (const std::string_view run : {Name(DType::kF64), Name(actual.dtype())}) {
      const Tensor expected = Load(Join(run, "/", name));
      EXPECT_EQ(actual.shape(), expected.shape()) << name;
      EXPECT_LT(RelativeError(ToDoubles(actual), ToDoubles(expected)), GetParam().tolerance)
          << run << "/" << name;
    }
  }

  void Step(Optimizer& optimizer) {
    for (Parameter* p : model_.parameters()) p->ResetGrad();
    Backward(model_.Loss(batch_), model_.parameters());
    optimizer.Step();
  }

  void ExpectSameTraining(const std::string& name, Optimizer& optimizer) {
    for (int i = 0; i < kSteps; ++i) Step(optimizer);
    for (Parameter* p : model_.parameters()) ExpectClose(p->value(), name + "/" + p->name());
  }

  std::vector<double> Options(const std::string& name) const {
    return Load("options/" + name).ToVector<double>();
  }

  const DevicePtr device_ = GetParam().device();
  const SafetensorsFile file_ = SafetensorsFile::Open(kFixture);
  const Batch batch_{.inputs = Load("inputs"), .targets = Load("targets")};
  Transformer model_;
};

inline std::string ParityCaseName(const testing::TestParamInfo<ParityCase>& test) { return test.param.name; }

TEST_P(TransformerParityTest, LossAndEveryGradient) {
  const Var loss = model_.Loss(batch_);
  ExpectClose(loss.value(), "loss");
  Backward(loss, model_.parameters());
  for (Parameter* p : model_.parameters()) ExpectClose(p->grad(), "grad/" + p->name());
}

TEST_P(TransformerParityTest, AdamW) {
  const std::vector<double> options = Options("adamw");
  AdamW optimizer(model_.parameters(), {.learning_rate = options.at(0),
                                        .beta1 = options.at(1),
                                        .beta2 = options.at(2),
                                        .eps = options.at(3),
                                        .weight_decay = options.at(4)});
  ExpectSameTraining("adamw", optimizer);
}

TEST_P(TransformerParityTest, Sgd) {
  const std::vector<double> options = Options("sgd");
  Sgd optimizer(model_.parameters(), {.learning_rate = options.at(0)});
  ExpectSameTraining("sgd", optimizer);
}

}  // namespace gradsync::model
