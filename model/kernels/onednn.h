#pragma once

#include <dnnl.hpp>
#include <type_traits>

#include "model/tensor/dtype.h"

namespace gradsync::model::kernels {

// Returns whether oneDNN can use `instructions`: the CPU has them all, and the environment variable
// ONEDNN_MAX_CPU_ISA allows them.
inline bool UsesInstructions(dnnl::cpu_isa instructions) {
  const auto needed = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

// Returns whether oneDNN can use the AVX-512 instructions for bf16. Without these instructions, matrix
// products and convolutions by oneDNN are slower in bf16 than in f32.
inline bool UsesBF16Instructions() { return UsesInstructions(dnnl::cpu_isa::avx512_core_bf16); }

template <class T>
inline constexpr dnnl::memory::data_type kOneDnnType =
    std::is_same_v<T, BF16> ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

// Returns attributes for a oneDNN primitive whose scratch memory the caller provides. If `sum`, the primitive
// adds its result to the old output instead of overwriting the output.
inline dnnl::primitive_attr OneDnnAttributes(bool sum = false) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (sum) {
    dnnl::post_ops post_ops;
    post_ops.append_sum(1.0f);
    attributes.set_post_ops(post_ops);
  }
  return attributes;
}

}  // namespace gradsync::model::kernels
