#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/tensor/cuda_device.h"
#include "model/transformer/test_transformer.h"
#include "model/transformer/transformer.h"

namespace gradsync::model {
namespace {

// The shape of a batch.
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
  const TransformerConfig config = TiledTransformer(64);
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
    const TransformerConfig config = TiledTransformer(head_dim);
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

}  // namespace
}  // namespace gradsync::model
