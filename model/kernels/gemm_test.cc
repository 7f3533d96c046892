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
    ForGemms([device = CpuDevice(threads)](auto... product) {
      CheckGemm<float>(device, cpu::Gemm<float>, product...);
      CheckGemm<double>(device, cpu::Gemm<double>, product...);
    });
  }
}

TEST(GemmTest, SerialEqualsTheDefinition) {
  ForGemms([device = CpuDevice()](auto... product) {
    CheckGemm<float>(device, SerialGemm<float>, product...);
    CheckGemm<double>(device, SerialGemm<double>, product...);
  });
}

}  // namespace
}  // namespace gradsync::model::kernels
