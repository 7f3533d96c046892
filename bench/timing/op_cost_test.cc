#include "bench/timing/op_cost.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "bench/timing/op_recorder.h"
#include "model/autograd.h"
#include "model/device.h"
#include "model/functions.h"
#include "model/resnet.h"
#include "model/tensor.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;
using model::Var;

Tensor Zeros(const model::DevicePtr& device, model::Shape shape, DType dtype = DType::kF32) {
  return Tensor::Zeros(device, std::move(shape), dtype);
}

// What the operations of one forward pass cost, by name.
std::map<std::string, OpCosts> CostsOfPass(model::Model& model, const model::Batch& batch) {
  const model::DevicePtr device = batch.inputs.device();
  OpRecorder recorder;
  device->set_tracer(&recorder);
  model.Loss(batch);
  device->set_tracer(nullptr);
  std::map<std::string, OpCosts> costs;
  for (const ComputedOp& op : recorder.computed()) {
    costs[op.name].forward += op.costs.forward;
    costs[op.name].backward += op.costs.backward;
  }
  return costs;
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
  std::map<std::string, OpCosts> costs = CostsOfPass(transformer, {ids, ids});

  const double weights = kLayers * (4 * kWidth * kWidth + 3 * kWidth * kInside) + kVocab * kWidth;
  OpCosts products = costs.at("linear");
  products.forward += costs.at("add_linear").forward;
  products.backward += costs.at("add_linear").backward;
  EXPECT_EQ(products.forward.flops, 2 * weights * kBatch * kSeq);
  EXPECT_EQ(products.backward.flops, 4 * weights * kBatch * kSeq);

  // Of each layer q k^T and p v, over the pairs that see each other.
  const double attention = kLayers * kBatch * 2 * 2 * kWidth * (kSeq * (kSeq + 1) / 2);
  EXPECT_EQ(costs.at("attention").forward.flops, attention);
  EXPECT_EQ(costs.at("attention").backward.flops, 2.5 * attention);
  EXPECT_EQ(costs.at("rms_norm").forward.flops, 0);
}

TEST(OpCostTest, AModelsFlopsLeaveOutWhatIsComputedAgain) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter q("q", Zeros(device, {2, 8, 16})), weight("weight", Zeros(device, {3, 16}));
  const Var qkv[] = {Var(q), Var(q), Var(q)}, linear[] = {Var(Zeros(device, {2, 8, 16})), Var(weight)};
  const Tensor output = Zeros(device, {2, 8, 16}), y = Zeros(device, {2, 8, 3});
  const double attention = CostsOf("attention", output, qkv).forward.flops;
  FlopCounter counter;
  counter.Computed("attention", output, qkv);
  EXPECT_EQ(counter.flops(), 3 * attention);
  // One of the inputs has no gradient.
  counter.Computed("linear", y, linear);
  EXPECT_EQ(counter.flops(), 3 * attention + 2 * CostsOf("linear", y, linear).forward.flops);
  const Var constants[] = {Var(output), Var(output), Var(output)};
  counter = {};
  counter.Computed("attention", output, constants);
  EXPECT_EQ(counter.flops(), attention);
}

TEST(OpCostTest, AResNet50TakesTheMultiplicationsThatItIsKnownFor) {
  const model::DevicePtr device = model::CpuDevice();
  model::ResNet resnet(model::ResNet50Config(), device, DType::kF32, 0);
  std::map<std::string, OpCosts> costs =
      CostsOfPass(resnet, {Zeros(device, {1, 3, 224, 224}), Zeros(device, {1, 1000})});
  // torchvision's documentation has 4.09 GFLOPS of multiplications with their additions.
  const double forward = costs.at("conv2d").forward.flops + costs.at("linear").forward.flops;
  EXPECT_NEAR(forward / 2, 4.089e9, 0.001e9);
  // Images have no gradient, which saves the first convolution's.
  const double first = 2.0 * 112 * 112 * 64 * 3 * 7 * 7;
  const double backward = costs.at("conv2d").backward.flops + costs.at("linear").backward.flops;
  EXPECT_EQ(backward, 2 * forward - first);
}

TEST(OpCostTest, BytesAreReadAndWrittenOnce) {
  const model::DevicePtr device = model::CpuDevice();
  const Tensor x = Zeros(device, {10, 4}, DType::kBF16), y = Zeros(device, {10, 3}, DType::kBF16);
  Parameter weight("weight", Zeros(device, {3, 4}), Parameter::Copy::kBF16);
  const Var constant_x(x), linear[] = {constant_x, Var(weight)};
  const OpCosts costs = CostsOf("linear", y, linear);
  EXPECT_EQ(costs.forward.bytes, 2 * (40 + 12 + 30));
  // The output's gradient, x and the weight in bf16; the weight's gradient in f32.
  EXPECT_EQ(costs.backward.bytes, 2 * (30 + 40 + 12) + 4 * 12);
  EXPECT_EQ(costs.backward.flops, costs.forward.flops);

  const Var constants[] = {constant_x, constant_x};
  const OpCosts without_gradients = CostsOf("linear", y, constants);
  EXPECT_EQ(without_gradients.backward.bytes, 0);
  EXPECT_EQ(without_gradients.backward.flops, 0);
}

TEST(OpCostTest, WhatPassesThroughCostsNothing) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter a("a", Zeros(device, {5})), b("b", Zeros(device, {5}));
  const Var sum[] = {Var(a), Var(b)};
  const OpCosts costs = CostsOf("add", Zeros(device, {5}), sum);
  EXPECT_EQ(costs.forward.bytes, 4 * 15);
  EXPECT_EQ(costs.backward.bytes, 0);
}

TEST(OpCostTest, AnEmbeddingReadsAndWritesTheRowsThatAreNamed) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter table("table", Zeros(device, {1000, 4}));
  const Var inputs[] = {Var(table)};
  const OpCosts costs = CostsOf("embedding", Zeros(device, {2, 3, 4}), inputs);
  EXPECT_EQ(costs.forward.bytes, 2 * 4 * 24);
  EXPECT_EQ(costs.backward.bytes, 4 * 24 + 4 * 24);
}

TEST(OpCostTest, ABatchNormWithAResidualKeepsItsOutput) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter weight("weight", Zeros(device, {2})), bias("bias", Zeros(device, {2})),
      x("x", Zeros(device, {50}));
  const Tensor y = Zeros(device, {50});
  const Var plain[] = {Var(weight), Var(bias), Var(x), Var()};
  EXPECT_EQ(CostsOf("batch_norm", y, plain).forward.bytes, 4 * (2 + 2 + 50 + 50));
  // The output's gradient and x; the gradients of weight, bias and x.
  EXPECT_EQ(CostsOf("batch_norm", y, plain).backward.bytes, 4 * (50 + 50 + 2 + 2 + 50));
  const Var with_residual[] = {Var(weight), Var(bias), Var(x), Var(x)};
  EXPECT_EQ(CostsOf("batch_norm", y, with_residual).backward.bytes, 4 * (50 + 50 + 50 + 2 + 2 + 50 + 50));
}

TEST(OpCostTest, AnOptimizerPassesOverItsState) {
  const model::DevicePtr device = model::CpuDevice();
  Parameter plain("plain", Zeros(device, {100}));
  Parameter copied("copied", Zeros(device, {10}), Parameter::Copy::kBF16);
  Parameter* const params[] = {&plain, &copied};
  EXPECT_EQ(OptimizerCost("adamw", params).bytes, 28 * 110 + 2 * 10);
  EXPECT_EQ(OptimizerCost("sgd", params).bytes, 12 * 110 + 2 * 10);
  EXPECT_EQ(OptimizerCost("sgd", params).flops, 0);
}

}  // namespace
}  // namespace gradsync::bench
