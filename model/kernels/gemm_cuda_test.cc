#include "model/kernels/gemm.h"
#include "model/kernels/gemm_suite.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::model::kernels {
namespace {

TEST(GemmCudaTest, EqualsTheDefinition) {
  ForGemms([device = std::make_shared<CudaDevice>(0)](const GemmCase& product) {
    CheckGemm<float, float>(device, product);
    CheckGemm<double, double>(device, product);
    CheckGemm<BF16, BF16>(device, product);
    CheckGemm<BF16, float>(device, product);
  });
}

TEST(GemmCudaTest, AddsToAnotherMatrix) {
  ForGemms([device = std::make_shared<CudaDevice>(0)](const GemmCase& product) {
    CheckGemmWithAddend<float, float>(device, product);
    CheckGemmWithAddend<double, double>(device, product);
    CheckGemmWithAddend<BF16, BF16>(device, product);
  });
}

// 1 + 2^-12 has two digits more than TF32 keeps. In f32 all partial sums of 256 of them are exact.
TEST(GemmCudaTest, Tf32IsOffUnlessAllowed) {
  const auto device = std::make_shared<CudaDevice>(0);
  const int64_t n = 256;
  const std::vector<float> ones(static_cast<size_t>(n * n), 1.0f);
  const std::vector<float> fine(static_cast<size_t>(n * n), 1.0f + 0x1p-12f);
  const Tensor a = Tensor::From<float>(device, {n, n}, std::span<const float>(ones));
  const Tensor b = Tensor::From<float>(device, {n, n}, std::span<const float>(fine));
  const Tensor c = Tensor::Empty(device, {n, n}, DType::kF32);
  const auto product = [&] {
    kernels::Run("gemm", *device,
                 Gemm<float, float>{.m = n,
                                    .n = n,
                                    .k = n,
                                    .a = {a.data<float>(), n},
                                    .b = {b.data<float>(), n},
                                    .c = {.data = c.data<float>()},
                                    .c_stride = n});
    return c.ToVector<float>();
  };
  EXPECT_EQ(product(), std::vector<float>(static_cast<size_t>(n * n), 256 + 0x1p-4f));
  device->set_allow_tf32(true);
  for (const float value : product()) ASSERT_NEAR(value, 256, 0x1p-4f);
}

}  // namespace
}  // namespace gradsync::model::kernels
