// The optimizers on CUDA against the same ones on the CPU in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "model/optimizer.h"
#include "model/tensor/cuda_device.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::model {
namespace {

// More tensors than one launch takes; sizes around what one block takes, and none at all.
std::vector<int64_t> Numels() {
  std::vector<int64_t> numels{1, 4095, 4096, 4097, 20'011, 0};
  for (int64_t i = 0; i < 150; ++i) numels.push_back(1 + i * 37 % 300);
  return numels;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(std::span<Parameter* const>)>;

// The parameters after some steps.
std::vector<std::vector<double>> Train(const DevicePtr& device, DType dtype, const MakeOptimizer& make) {
  std::deque<Parameter> params;
  std::vector<Parameter*> list;
  for (const int64_t numel : Numels()) {
    list.push_back(&params.emplace_back("p", Tensor::Empty(device, {numel}, dtype)));
    FillTruncatedNormal(params.back().MutableValue(), 1.0, /*seed=*/0, list.size());
  }
  const std::unique_ptr<Optimizer> optimizer = make(list);
  for (uint64_t step = 1; step <= 4; ++step) {
    for (size_t i = 0; i < list.size(); ++i) {
      FillTruncatedNormal(list[i]->grad(), i % 2 == 0 ? 1.0 : 1e-6, step, i);
      list[i]->MarkGrad();
    }
    optimizer->Step();
  }
  std::vector<std::vector<double>> result;
  for (const Parameter* p : list) {
    DispatchFloat(dtype, "test", [&]<class T>() {
      const std::vector<T> values = p->value().ToVector<T>();
      result.emplace_back(values.begin(), values.end());
    });
  }
  return result;
}

void ExpectAgreement(const MakeOptimizer& make) {
  const std::vector<std::vector<double>> want = Train(CpuDevice(), DType::kF64, make);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const std::vector<std::vector<double>> got = Train(std::make_shared<CudaDevice>(0), dtype, make);
    // Each of four steps rounds a handful of times, relative to a value of at most 3 and a change of at most
    // 0.1.
    const double eps = dtype == DType::kF64 ? std::numeric_limits<double>::epsilon()
                                            : double{std::numeric_limits<float>::epsilon()};
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].size(), want[i].size());
      for (size_t k = 0; k < want[i].size(); ++k) {
        ASSERT_NEAR(got[i][k], want[i][k], 4 * 4 * eps * (0.3 + std::abs(want[i][k])))
            << Name(dtype) << " tensor " << i << " element " << k;
      }
    }
  }
}

TEST(OptimizerCudaTest, WritesTheCopiesOfValuesWithThem) {
  const DevicePtr device = std::make_shared<CudaDevice>(0);
  for (const bool adamw : {false, true}) {
    std::deque<Parameter> params;
    std::vector<Parameter*> list;
    for (const int64_t numel : Numels()) {
      // Every third without a copy.
      const auto copy = params.size() % 3 == 2 ? Parameter::Copy::kNone : Parameter::Copy::kBF16;
      list.push_back(&params.emplace_back("p", Tensor::Empty(device, {numel}, DType::kF32), copy));
      FillTruncatedNormal(params.back().MutableValue(), 1.0, /*seed=*/0, list.size());
      FillTruncatedNormal(params.back().grad(), 1.0, /*seed=*/1, list.size());
      params.back().MarkGrad();
    }
    if (adamw) {
      AdamW(list, {}).Step();
    } else {
      Sgd(list, {}).Step();
    }
    for (Parameter* p : list) {
      const Tensor& copy = p->BeginUpdate().copy;
      if (!copy.defined()) continue;
      const std::vector<BF16> rounded = copy.ToVector<BF16>();
      const std::vector<float> values = p->value().ToVector<float>();
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(rounded[i].bits, BF16(values[i]).bits) << i;
    }
  }
}

// Which clipping divides by: in one order, and the CPU's.
TEST(OptimizerCudaTest, SquaredNorms) {
  const auto norm = [](const DevicePtr& device) {
    std::vector<Tensor> tensors;
    for (const int64_t numel : {1, 200'000, 0, 65'536}) {
      tensors.push_back(Tensor::Empty(device, {numel}, DType::kF32));
      FillTruncatedNormal(tensors.back(), 1.0, /*seed=*/0, static_cast<uint64_t>(numel));
    }
    tensors.push_back(Tensor::Empty(device, {65'536}, DType::kBF16));
    Cast(tensors[3], tensors[4]);
    return SquaredNorm(tensors);
  };
  const DevicePtr gpu = std::make_shared<CudaDevice>(0);
  const double expected = norm(CpuDevice()), found = norm(gpu);
  EXPECT_NEAR(found, expected, 1e-12 * expected);
  EXPECT_EQ(norm(gpu), found);
}

TEST(OptimizerCudaTest, Sgd) {
  ExpectAgreement([](std::span<Parameter* const> params) {
    return std::make_unique<Sgd>(params, Sgd::Options{.learning_rate = 0.01});
  });
}

// Matrices, of which gradients have full rank, and what is none.
TEST(OptimizerCudaTest, Muon) {
  const auto train = [](const DevicePtr& device, DType dtype, bool in_bf16) {
    std::deque<Parameter> params;
    std::vector<Parameter*> list;
    for (const Shape& shape : {Shape{24, 40}, Shape{40, 24}, Shape{17}, Shape{32, 32}}) {
      list.push_back(&params.emplace_back("p", Tensor::Empty(device, shape, dtype)));
      FillTruncatedNormal(params.back().MutableValue(), 1.0, /*seed=*/0, list.size());
    }
    Muon muon(list, {.adamw = {.learning_rate = 0.02}, .in_bf16 = in_bf16});
    for (uint64_t step = 1; step <= 2; ++step) {
      for (size_t i = 0; i < list.size(); ++i) {
        FillTruncatedNormal(list[i]->grad(), 1.0, step, i);
        list[i]->MarkGrad();
      }
      muon.Step();
    }
    std::vector<double> all;
    for (const Parameter* p : list) {
      DispatchFloat(dtype, "test", [&]<class T>() {
        for (const T value : p->value().ToVector<T>()) all.push_back(value);
      });
    }
    return all;
  };
  const auto gpu = std::make_shared<CudaDevice>(0);
  const std::vector<double> expected = train(CpuDevice(), DType::kF64, false);
  const auto check = [&](DType dtype, bool in_bf16, double tolerance) {
    const std::vector<double> found = train(gpu, dtype, in_bf16);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << Name(dtype);
  };
  // An element of an update is at most 0.02 * 0.2 * sqrt(40) * 1.2 = 0.03. Iterations enlarge what is rounded
  // by at most 485.
  check(DType::kF64, false, 1e-13);
  check(DType::kF32, false, 2 * 0.03 * 485 * 0x1p-23);
  check(DType::kF32, true, 2 * 0.03 * 0.1);
}

TEST(OptimizerCudaTest, AdamW) {
  ExpectAgreement([](std::span<Parameter* const> params) {
    return std::make_unique<AdamW>(params, AdamW::Options{.learning_rate = 0.02, .weight_decay = 0.1});
  });
}

}  // namespace
}  // namespace gradsync::model
