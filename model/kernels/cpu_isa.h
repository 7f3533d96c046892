#ifndef GRADSYNC_MODEL_KERNELS_CPU_ISA_H_
#define GRADSYNC_MODEL_KERNELS_CPU_ISA_H_

#include <dnnl.hpp>

namespace gradsync::model::kernels {

// Whether oneDNN uses all of these instructions here: the processor has them, and nothing forbids them
// (ONEDNN_MAX_CPU_ISA).
inline bool UsesInstructions(dnnl::cpu_isa instructions) {
  const auto needed = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

// oneDNN computes bf16 with any AVX-512, but without the instructions for it more slowly than f32.
inline bool UsesBF16Instructions() { return UsesInstructions(dnnl::cpu_isa::avx512_core_bf16); }

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_CPU_ISA_H_
