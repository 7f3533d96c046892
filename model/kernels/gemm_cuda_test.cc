#include "model/cuda_device.h"
#include "model/kernels/gemm.h"
#include "model/kernels/gemm_suite.h"

namespace gradsync::model::kernels {
namespace {

TEST(GemmCudaTest, EqualsTheDefinition) {
  ForGemms([device = std::make_shared<CudaDevice>(0)](auto... product) {
    CheckGemm<float>(device, cuda::Gemm<float>, product...);
    CheckGemm<double>(device, cuda::Gemm<double>, product...);
  });
}

// Small integers are exact in TF32 too, so only a number with more digits tells the two apart.
TEST(GemmCudaTest, Tf32IsOffUnlessAllowed) {
  const auto device = std::make_shared<CudaDevice>(0);
  const int64_t n = 256;
  const std::vector<float> ones(static_cast<size_t>(n * n), 1.0f);
  const std::vector<float> fine(static_cast<size_t>(n * n), 1.0f + 0x1p-20f);
  const Tensor a = Tensor::From<float>(device, {n, n}, std::span<const float>(ones));
  const Tensor b = Tensor::From<float>(device, {n, n}, std::span<const float>(fine));
  const Tensor c = Tensor::Empty(device, {n, n}, DType::kF32);
  const auto product = [&] {
    cuda::Gemm<float>(*device, n, n, n, {a.data<float>(), n}, {b.data<float>(), n}, c.data<float>(), n,
                      false);
    return c.ToVector<float>().front();
  };
  const float exact = 256.0f + 256 * 0x1p-20f;
  EXPECT_NEAR(product(), exact, 0x1p-13f);
  EXPECT_GT(product(), 256.0f);
  device->set_allow_tf32(true);
  EXPECT_NEAR(product(), exact, 256 * 0x1p-10f);
}

}  // namespace
}  // namespace gradsync::model::kernels
