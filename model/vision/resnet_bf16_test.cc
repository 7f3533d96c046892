// The residual network with activations in bf16 and parameters in f32. tests/resnet_parity_test.cc compares
// its gradients with PyTorch's in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/optimizer.h"
#include "model/test_step.h"
#include "model/vision/resnet.h"
#include "model/vision/test_resnet.h"

namespace gradsync::model {
namespace {

TEST(ResNetBF16, ParametersAndBuffersAreF32WithCopiesOfMatrices) {
  const DevicePtr device = CpuDevice();
  ResNet model(MicroResNet(), device, DType::kBF16, 7);
  const ResNet wide(MicroResNet(), device, DType::kF32, 7);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    Parameter& p = *model.parameters()[i];
    EXPECT_EQ(p.value().ToVector<float>(), wide.parameters()[i]->value().ToVector<float>()) << p.name();
    EXPECT_EQ(p.grad().dtype(), DType::kF32) << p.name();
    EXPECT_EQ(p.ForwardValue().dtype(), p.value().rank() >= 2 ? DType::kBF16 : DType::kF32) << p.name();
  }
  for (const Buffer& buffer : model.buffers()) {
    const bool is_count = buffer.name.ends_with("num_batches_tracked");
    EXPECT_EQ(buffer.value.dtype(), is_count ? DType::kI64 : DType::kF32) << buffer.name;
  }
  const Batch batch = RandomImages(device, 2, 32, 32, 10);
  EXPECT_EQ(model.Predict(batch.inputs).value().dtype(), DType::kBF16);
  EXPECT_EQ(model.Loss(batch).value().dtype(), DType::kF32);
}

// Rounding in the forward pass moves some pixels to the other side of a rectifier, and what batch norms leave
// of a gradient is small beside that: in the first layers half of it is noise. (So it is for PyTorch in f64
// with activations rounded to bf16 in the forward pass alone; with their gradients rounded instead it is a
// hundredth.) All gradients together differ by 0.2 here, and by 1 if they had nothing to do with each other.
TEST(ResNetBF16, LossAndGradientsAreNearThoseOfF32) {
  std::vector<double> losses, gradients[2];
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const DevicePtr device = CpuDevice();
    ResNet model(MicroResNet(), device, dtype, 3);
    const Var loss = model.Loss(RandomImages(device, 16, 128, 128, 10));
    losses.push_back(static_cast<double>(loss.value().ToVector<float>()[0]));
    Backward(loss, model.parameters());
    std::vector<double>& all = gradients[dtype == DType::kBF16 ? 1 : 0];
    for (Parameter* p : model.parameters()) {
      const std::vector<float> values = p->grad().ToVector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  EXPECT_NEAR(losses[1] / losses[0], 1, 8 * 0x1p-8);
  double error = 0, norm = 0;
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    error += (gradients[1][i] - gradients[0][i]) * (gradients[1][i] - gradients[0][i]);
    norm += gradients[0][i] * gradients[0][i];
  }
  EXPECT_LT(std::sqrt(error / norm), 0.4);
}

// Both start from the same weights, and fall by as much: to within a tenth of it at every step.
TEST(ResNetBF16, LearnsAsInF32) {
  std::vector<std::vector<float>> curves;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const DevicePtr device = CpuDevice();
    ResNet model(MicroResNet(), device, dtype, 3);
    Sgd optimizer(model.parameters(), {.learning_rate = 0.005});
    const Batch batch = RandomImages(device, 4, 64, 64, 10);
    std::vector<float>& curve = curves.emplace_back();
    for (int step = 0; step < 12; ++step) {
      curve.push_back(Step(model, optimizer, batch).ToVector<float>()[0]);
    }
  }
  const float fall = curves[0].front() - curves[0].back();
  for (size_t i = 0; i < curves[0].size(); ++i) {
    EXPECT_NEAR(curves[1][i], curves[0][i], 0.1f * fall) << "step " << i;
  }
  EXPECT_LT(curves[1].back(), curves[1].front() / 4);
}

}  // namespace
}  // namespace gradsync::model
