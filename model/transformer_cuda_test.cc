#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/cuda_device.h"
#include "model/optimizer.h"
#include "model/test_models.h"
#include "model/transformer.h"

namespace gradsync::model {
namespace {

// Sequences that fill no tile of attention, in heads of 64 and of 80.
TransformerConfig Config(int64_t head_dim) {
  return {.name = "test",
          .d_model = 2 * head_dim,
          .d_ff = 200,
          .num_layers = 2,
          .num_heads = 2,
          .vocab_size = 301,
          .context_length = 128};
}

// Of a batch.
constexpr int64_t kRows = 3, kSeq = 100;

// As in tests/transformer_parity_test.cc.
constexpr double kToleranceBF16 = 8 * 0x1p-8;

std::vector<double> ToDouble(const Tensor& tensor) {
  return DispatchFloat(tensor.dtype(), "test", [&]<class T>() {
    const std::vector<T> values = tensor.ToVector<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

double RelativeError(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

TEST(TransformerCuda, StartsFromTheSameWeights) {
  const TransformerConfig config = Config(64);
  const Transformer there(config, std::make_shared<CudaDevice>(0), DType::kF32, 7);
  const Transformer here(config, CpuDevice(), DType::kF32, 7);
  for (size_t i = 0; i < here.parameters().size(); ++i) {
    EXPECT_EQ(there.parameters()[i]->value().ToVector<float>(),
              here.parameters()[i]->value().ToVector<float>())
        << here.parameters()[i]->name();
  }
}

TEST(TransformerCuda, ComputesWhatTheCpuComputesInF64) {
  for (const int64_t head_dim : {64, 80}) {
    const TransformerConfig config = Config(head_dim);
    const DevicePtr host = CpuDevice();
    Transformer here(config, host, DType::kF64, 7);
    const Var want = here.Loss(RandomTokens(host, config, kRows, kSeq, 1));
    const std::vector<double> want_loss = ToDouble(want.value());
    Backward(want, here.parameters());
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      const DevicePtr device = std::make_shared<CudaDevice>(0);
      Transformer there(config, device, dtype, 7);
      const Var got = there.Loss(RandomTokens(device, config, kRows, kSeq, 1));
      // As on the CPU against PyTorch: rounding grows through a few dozen operations.
      const double tolerance = dtype == DType::kF64 ? 1e-12 : dtype == DType::kF32 ? 1e-5 : kToleranceBF16;
      EXPECT_LT(RelativeError(ToDouble(got.value()), want_loss), tolerance);
      Backward(got, there.parameters());
      for (size_t i = 0; i < here.parameters().size(); ++i) {
        EXPECT_LT(
            RelativeError(ToDouble(there.parameters()[i]->grad()), ToDouble(here.parameters()[i]->grad())),
            tolerance)
            << Name(dtype) << " " << here.parameters()[i]->name();
      }
    }
  }
}

class TransformerCudaTraining : public testing::TestWithParam<DType> {};

INSTANTIATE_TEST_SUITE_P(All, TransformerCudaTraining, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST_P(TransformerCudaTraining, IsDeterministic) {
  const TransformerConfig config = Config(64);
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 2; ++run) {
    const DevicePtr device = std::make_shared<CudaDevice>(0);
    Transformer model(config, device, GetParam(), 1);
    AdamW optimizer(model.parameters(), {});
    const Batch batch = RandomTokens(device, config, kRows, kSeq, 1);
    for (int step = 0; step < 3; ++step) Step(model, optimizer, batch);
    std::vector<float>& result = results.emplace_back();
    for (const Parameter* p : model.parameters()) {
      const std::vector<float> values = p->value().ToVector<float>();
      result.insert(result.end(), values.begin(), values.end());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(TransformerCudaTraining, SteadyStepsTakeNothingFromTheDriver) {
  const TransformerConfig config = Config(64);
  const DevicePtr device = std::make_shared<CudaDevice>(0);
  Transformer model(config, device, GetParam(), 0);
  AdamW optimizer(model.parameters(), {});
  const Batch batch = RandomTokens(device, config, kRows, kSeq, 1);
  for (int i = 0; i < 2; ++i) Step(model, optimizer, batch);
  const CachingAllocator::Stats first = device->allocator().stats();
  for (int i = 0; i < 5; ++i) {
    Step(model, optimizer, batch);
    const CachingAllocator::Stats later = device->allocator().stats();
    EXPECT_EQ(later.source_allocations, first.source_allocations) << "step " << i + 3;
    EXPECT_EQ(later.bytes_in_use, first.bytes_in_use);
  }
  device->Synchronize();
}

TEST_P(TransformerCudaTraining, LearnsABatchByHeart) {
  const TransformerConfig config = Config(64);
  const DevicePtr device = std::make_shared<CudaDevice>(0);
  Transformer model(config, device, GetParam(), 0);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.003});
  const Batch batch = RandomTokens(device, config, kRows, kSeq, 1);
  const float before = model.Loss(batch).value().ToVector<float>()[0];
  for (int i = 0; i < 100; ++i) Step(model, optimizer, batch);
  EXPECT_LT(model.Loss(batch).value().ToVector<float>()[0], before / 2);
}

}  // namespace
}  // namespace gradsync::model
