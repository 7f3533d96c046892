#pragma once

namespace gradsync {

// Which of three instruction sets a processor has. Programs need all three, because .bazelrc compiles them
// for x86-64-v3. Older processors lack some of them.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
};

// Returns the first of "AVX2", "FMA" and "BMI2" that the processor lacks; null if it has all three.
const char* MissingFeature(const CpuFeatures& features);

CpuFeatures ThisCpu();

}  // namespace gradsync
