#include "model/base/cpu.h"

#include <gtest/gtest.h>

namespace gradsync {
namespace {

TEST(CpuTest, NamesWhatIsMissing) {
  EXPECT_EQ(MissingFeature({.avx2 = true, .fma = true, .bmi2 = true}), nullptr);
  EXPECT_STREQ(MissingFeature({.avx2 = false, .fma = true, .bmi2 = true}), "AVX2");
  EXPECT_STREQ(MissingFeature({.avx2 = true, .fma = false, .bmi2 = true}), "FMA");
  EXPECT_STREQ(MissingFeature({.avx2 = true, .fma = true, .bmi2 = false}), "BMI2");
}

// This test runs, so it is on a processor that has them.
TEST(CpuTest, ThisProcessorHasThem) { EXPECT_EQ(MissingFeature(ThisCpu()), nullptr); }

}  // namespace
}  // namespace gradsync
