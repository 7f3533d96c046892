#include "model/kernels/gemm.h"

#include "model/kernels/gemm_suite.h"

namespace gradsync::model::kernels {
namespace {

template <class T>
void SerialGemm(Device&, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate) {
  cpu::SerialGemm(m, n, k, a, b, c, c_stride, accumulate);
}

TEST(GemmTest, EqualsTheDefinition) {
  for (const int threads : {1, 2}) {
    ForGemms([device = CpuDevice(threads)](const GemmCase& product) {
      CheckGemm<float, float>(device, cpu::Gemm<float, float>, product);
      CheckGemm<double, double>(device, cpu::Gemm<double, double>, product);
      CheckGemm<BF16, BF16>(device, cpu::Gemm<BF16, BF16>, product);
      CheckGemm<BF16, float>(device, cpu::Gemm<BF16, float>, product);
    });
  }
}

TEST(GemmTest, AddsToAnotherMatrix) {
  ForGemms([device = CpuDevice(2)](const GemmCase& product) {
    CheckGemmPlus<float>(device, cpu::GemmPlus<float>, product);
    CheckGemmPlus<double>(device, cpu::GemmPlus<double>, product);
    CheckGemmPlus<BF16>(device, cpu::GemmPlus<BF16>, product);
  });
}

TEST(GemmTest, SerialEqualsTheDefinition) {
  ForGemms([device = CpuDevice()](const GemmCase& product) {
    CheckGemm<float, float>(device, SerialGemm<float>, product);
    CheckGemm<double, double>(device, SerialGemm<double>, product);
  });
}

}  // namespace
}  // namespace gradsync::model::kernels
