#include "model/base/cpu.h"

#include <unistd.h>

#include <cstring>

#include "model/base/exit_status.h"

namespace gradsync {
namespace {

void Say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody reads it
}

// Ends every program on a processor for which it is not compiled, in place of SIGILL. This file is compiled
// for any x86-64 (.bazelrc) and calls nothing that is not; 101 is before the initialisation of any variable.
[[gnu::constructor(101)]] void RefuseOtherCpus() {
  const char* const missing = MissingFeature(ThisCpu());
  if (missing == nullptr) return;
  Say("gradsync: this processor lacks ");
  Say(missing);
  Say(": programs are compiled for x86-64-v3 (AVX2, FMA, BMI2)\n");
  _exit(kLacking);
}

}  // namespace

const char* MissingFeature(const CpuFeatures& features) {
  if (!features.avx2) return "AVX2";
  if (!features.fma) return "FMA";
  return features.bmi2 ? nullptr : "BMI2";
}

CpuFeatures ThisCpu() {
  __builtin_cpu_init();
  return {__builtin_cpu_supports("avx2") != 0, __builtin_cpu_supports("fma") != 0,
          __builtin_cpu_supports("bmi2") != 0};
}

}  // namespace gradsync
