#pragma once

namespace gradsync {

// Features that the compiler may use (-march=x86-64-v3 in .bazelrc) and that older processors lack.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
};

// Returns the name of the first feature that is missing; null if the processor has all of them.
const char* MissingFeature(const CpuFeatures& features);

// Returns the features of the processor on which this program runs.
CpuFeatures ThisCpu();

}  // namespace gradsync
