// The transformer with activations in bf16 and parameters in f32. tests/transformer_parity_test.cc compares
// its gradients with PyTorch's in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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
