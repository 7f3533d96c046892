// The transformer with activations in bf16 and parameters in f32. tests/transformer_parity_test.cc compares
// its gradients with PyTorch's in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/files/safetensors.h"
#include "model/optimizer.h"
#include "model/test_step.h"
#include "model/transformer/test_transformer.h"
#include "model/transformer/transformer.h"

namespace gradsync::model {
namespace {

TEST(TransformerBF16, ParametersAreF32WithCopiesOfMatrices) {
  const DevicePtr device = CpuDevice();
  Transformer model(MicroTransformer(), device, DType::kBF16, 7);
  const Transformer wide(MicroTransformer(), device, DType::kF32, 7);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    Parameter& p = *model.parameters()[i];
    EXPECT_EQ(p.value().ToVector<float>(), wide.parameters()[i]->value().ToVector<float>()) << p.name();
    EXPECT_EQ(p.grad().dtype(), DType::kF32) << p.name();
    EXPECT_EQ(p.ForwardValue().dtype(), p.value().rank() == 2 ? DType::kBF16 : DType::kF32) << p.name();
  }
  const Batch batch = RandomTokens(device, MicroTransformer(), 2, 6, 0);
  EXPECT_EQ(model.Logits(batch.inputs).value().dtype(), DType::kBF16);
  EXPECT_EQ(model.Loss(batch).value().dtype(), DType::kF32);
}

// Whatever wrote the parameters, the next forward pass computes with what they hold: as a model does that was
// never used before and was given the same values.
TEST(TransformerBF16, ForwardSeesTheLastWrite) {
  const DevicePtr device = CpuDevice();
  const TransformerConfig config = MicroTransformer();
  const Batch batch = RandomTokens(device, config, 2, 6, 1);
  Transformer model(config, device, DType::kBF16, 7);
  const Transformer other(config, device, DType::kBF16, 8);
  std::vector<float> losses;
  const auto expect_fresh = [&](const char* after) {
    const float loss = LossOf(model, batch);
    Transformer unused(config, device, DType::kBF16, 0);
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      unused.parameters()[i]->MutableValue().CopyFrom(model.parameters()[i]->value());
    }
    EXPECT_EQ(loss, LossOf(unused, batch)) << after;
    for (const float earlier : losses) EXPECT_NE(loss, earlier) << after;
    losses.push_back(loss);
  };
  expect_fresh("initialisation");

  AdamW optimizer(model.parameters(), {});
  Step(model, optimizer, batch);
  expect_fresh("an optimizer's step");

  for (size_t i = 0; i < model.parameters().size(); ++i) {
    model.parameters()[i]->MutableValue().CopyFrom(other.parameters()[i]->value());
  }
  expect_fresh("a copy, as a broadcast makes it");

  Step(model, optimizer, batch);
  expect_fresh("another step");

  const std::string path = testing::TempDir() + "/transformer_bf16_test.safetensors";
  SaveParameters(Transformer(config, device, DType::kF32, 9).parameters(), path);
  LoadParameters(model.parameters(), path);
  expect_fresh("a file");
}

// Both start from the same weights. A loss is a mean over 64 positions, of numbers that go through some fifty
// operations in bf16, each rounding by up to 2^-8 with either sign: about 2^-8 sqrt(50) / sqrt(64) of the
// logits' size, which is about one. Twice that is allowed, along a curve that falls by much more.
TEST(TransformerBF16, LearnsAsInF32) {
  TransformerConfig config = TransformerByName("tiny");
  config.vocab_size = 1000;
  std::vector<std::vector<float>> curves;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const DevicePtr device = CpuDevice();
    Transformer model(config, device, dtype, 3);
    AdamW optimizer(model.parameters(), {.learning_rate = 3e-4});
    const Batch batch = RandomTokens(device, config, 4, 16, 0);
    std::vector<float>& curve = curves.emplace_back();
    for (int step = 0; step < 20; ++step) {
      curve.push_back(Step(model, optimizer, batch).ToVector<float>()[0]);
    }
  }
  for (size_t i = 0; i < curves[0].size(); ++i) {
    EXPECT_NEAR(curves[1][i], curves[0][i], 2 * 0x1p-8 * std::sqrt(50.0 / 64)) << "step " << i;
  }
  EXPECT_LT(curves[1].back(), curves[1].front() / 2);
}

}  // namespace
}  // namespace gradsync::model
