#include "model/kernels/gemm.h"

#include "model/kernels/gemm_suite.h"

namespace gradsync::model::kernels {
namespace {

TEST(GemmTest, EqualsTheDefinition) {
  for (const int threads : {1, 2}) {
    ForGemms([device = CpuDevice(threads)](const GemmCase& product) {
      CheckGemm<float, float>(device, product);
      CheckGemm<double, double>(device, product);
      CheckGemm<BF16, BF16>(device, product);
      CheckGemm<BF16, float>(device, product);
    });
  }
}

TEST(GemmTest, AddsToAnotherMatrix) {
  ForGemms([device = CpuDevice(2)](const GemmCase& product) {
    CheckGemmWithAddend<float, float>(device, product);
    CheckGemmWithAddend<double, double>(device, product);
    CheckGemmWithAddend<BF16, BF16>(device, product);
  });
}

TEST(GemmTest, SerialEqualsTheDefinition) {
  ForGemms([device = CpuDevice()](const GemmCase& product) {
    const auto multiply = [&](auto a, auto b, auto* c, int64_t c_stride) {
      SerialGemm(product.m, product.n, product.k, a, b, c, c_stride, product.accumulate);
    };
    CheckGemm<float, float>(device, product, multiply);
    CheckGemm<double, double>(device, product, multiply);
  });
}

}  // namespace
}  // namespace gradsync::model::kernels
