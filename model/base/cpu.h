#pragma once

namespace gradsync {

// Which instruction sets a processor has. The programs need these three, because .bazelrc compiles them for
// x86-64-v3; older processors lack them.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
};

// Returns the first of "AVX2", "FMA" and "BMI2" that the processor lacks; null if it has all three.
const char* MissingFeature(const CpuFeatures& features);

CpuFeatures ThisCpu();

}  // namespace gradsync
