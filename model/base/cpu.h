#pragma once

namespace gradsync {

// Instruction sets that this program needs (-march=x86-64-v3 in .bazelrc) and that older processors lack.
struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi2 = false;
};

// Returns the name of the first instruction set that the processor lacks; null if it has all of them.
const char* MissingFeature(const CpuFeatures& features);

CpuFeatures ThisCpu();

}  // namespace gradsync
