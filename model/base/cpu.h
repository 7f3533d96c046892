#pragma once

namespace gradsync {

// For each of the instruction sets AVX2, FMA and BMI2: true if a processor has it. ThisCpu() returns the
// CpuFeatures of this computer's processor. This project's programs need AVX2, FMA and BMI2, because .bazelrc
// compiles them for x86-64-v3.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
};

// Returns the first of "AVX2", "FMA" and "BMI2" that the processor lacks; null if it has all three.
const char* MissingFeature(const CpuFeatures& features);

CpuFeatures ThisCpu();

}  // namespace gradsync
