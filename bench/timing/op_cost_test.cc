#include "bench/timing/op_cost.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "bench/timing/op_recorder.h"
#include "model/autograd.h"
#include "model/functions.h"
#include "model/tensor/device.h"
#include "model/tensor/tensor.h"
#include "model/transformer/transformer.h"
#include "model/vision/resnet.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;
using model::Var;

Tensor Zeros(const model::DevicePtr& device, model::Shape shape, DType dtype = DType::kF32) {
  return Tensor::Zeros(device, std::move(shape), dtype);
}

// The arithmetic of the operations of one forward pass, by name.
std::map<std::string, Flops> FlopsOfPass(model::Model& model, const model::Batch& batch) {
  const model::DevicePtr device = batch.inputs.device();
  OpRecorder recorder;
  device->set_tracer(&recorder);
  model.Loss(batch);
  device->set_tracer(nullptr);
  std::map<std::string, Flops> flops;
  for (const ComputedOp& op : recorder.computed()) {
    flops[op.name].forward += op.flops.forward;
    flops[op.name].backward += op.flops.backward;
  }
  return flops;
}

TEST(OpCostTest, ATransformerTakesSixFlopsForEachWeightAndTokenAndItsAttention) {
  const model::DevicePtr device = model::CpuDevice();
  constexpr double kBatch = 2, kSeq = 8, kWidth = 16, kInside = 32, kLayers = 3, kVocab = 50;
  model::Transformer transformer({.name = "test",
                                  .d_model = static_cast<int64_t>(kWidth),
                                  .d_ff = static_cast<int64_t>(kInside),
                                  .num_layers = static_cast<int64_t>(kLayers),
                                  .num_heads = 2,
                                  .vocab_size = static_cast<int64_t>(kVocab)},
                                 device, DType::kF32, 0);
  const Tensor ids = Zeros(device, {2, 8}, DType::kI32);
  std::map<std::string, Flops> flops = FlopsOfPass(transformer, {ids, ids});

  const double weights = kLayers * (4 * kWidth * kWidth + 3 * kWidth * kInside) + kVocab * kWidth;
  Flops products = flops.at("linear");
  products.forward += flops.at("add_linear").forward;
  products.backward += flops.at("add_linear").backward;
  EXPECT_EQ(products.forward, 2 * weights * kBatch * kSeq);
  EXPECT_EQ(products.backward, 4 * weights * kBatch * kSeq);

  // Each layer computes q k^T and p v, over the pairs that see each other.
  const double attention = kLayers * kBatch * 2 * 2 * kWidth * (kSeq * (kSeq + 1) / 2);
  EXPECT_EQ(flops.at("attention").forward, attention);
  EXPECT_EQ(flops.at("attention").backward, 2 * attention);
  EXPECT_EQ(flops.at("rms_norm").forward, 0);
}

TEST(OpCostTest, OnlyInputsWithAGradientHaveABackwardPass) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter q("q", Zeros(device, {2, 8, 16})), weight("weight", Zeros(device, {3, 16}));
  const Var qkv[] = {Var(q), Var(q), Var(q)}, linear[] = {Var(Zeros(device, {2, 8, 16})), Var(weight)};
  const Tensor output = Zeros(device, {2, 8, 16}), y = Zeros(device, {2, 8, 3});
  const double attention = FlopsOf("attention", output, qkv).forward;
  FlopCounter counter;
  counter.Computed("attention", output, qkv);
  EXPECT_EQ(counter.flops(), 3 * attention);
  // One of the inputs has no gradient.
  counter.Computed("linear", y, linear);
  EXPECT_EQ(counter.flops(), 3 * attention + 2 * FlopsOf("linear", y, linear).forward);
  const Var constants[] = {Var(output), Var(output), Var(output)};
  counter = {};
  counter.Computed("attention", output, constants);
  EXPECT_EQ(counter.flops(), attention);
}

TEST(OpCostTest, AResNet50TakesTheMultiplicationsThatItIsKnownFor) {
  const model::DevicePtr device = model::CpuDevice();
  model::ResNet resnet(model::ResNet50Config(), device, DType::kF32, 0);
  std::map<std::string, Flops> flops =
      FlopsOfPass(resnet, {Zeros(device, {1, 3, 224, 224}), Zeros(device, {1, 1000})});
  // torchvision's documentation has 4.09 GFLOPS of multiplications with their additions.
  const double forward = flops.at("conv2d").forward + flops.at("linear").forward;
  EXPECT_NEAR(forward / 2, 4.089e9, 0.001e9);
  // Images have no gradient, which saves the first convolution's.
  const double first = 2.0 * 112 * 112 * 64 * 3 * 7 * 7;
  const double backward = flops.at("conv2d").backward + flops.at("linear").backward;
  EXPECT_EQ(backward, 2 * forward - first);
}

}  // namespace
}  // namespace gradsync::bench
