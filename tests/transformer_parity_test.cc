#include <limits>

#include "tests/transformer_parity_suite.h"

namespace gradsync::model {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Cpu, TransformerParityTest,
    testing::Values(ParityCase{"f32_threads1", DType::kF32, [] { return CpuDevice(1); }, 1e-5},
                    ParityCase{"f32_threads2", DType::kF32, [] { return CpuDevice(2); }, 1e-5},
                    ParityCase{"f64_threads1", DType::kF64, [] { return CpuDevice(1); }, 1e-12},
                    ParityCase{"bf16_threads1", DType::kBF16, [] { return CpuDevice(1); }, kToleranceBF16},
                    ParityCase{"bf16_threads2", DType::kBF16, [] { return CpuDevice(2); }, kToleranceBF16}),
    ParityCaseName);

// The comparison itself: a gradient that is off by a thousandth fails it.
TEST(RelativeError, MeasuresTheNorm) {
  EXPECT_EQ(RelativeError({3, 4}, {3, 4}), 0);
  EXPECT_NEAR(RelativeError({3.003, 4.004}, {3, 4}), 1e-3, 1e-12);
  EXPECT_FALSE(RelativeError({std::numeric_limits<double>::quiet_NaN()}, {1}) < 1);
}

}  // namespace
}  // namespace gradsync::model
