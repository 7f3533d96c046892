#pragma once

#include <dnnl.hpp>
#include <type_traits>

#include "model/tensor/dtype.h"

namespace gradsync::model::kernels {

// Returns whether oneDNN uses `instructions`: the CPU has them all, and the environment variable
// ONEDNN_MAX_CPU_ISA allows them.
inline bool UsesInstructions(dnnl::cpu_isa instructions) {
  const auto needed = static_cast<unsigned>(instructions);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

// Returns whether oneDNN uses the AVX-512 instructions for bf16. Without these, matrix products and
// convolutions are slower in bf16 than in f32.
inline bool UsesBF16Instructions() { return UsesInstructions(dnnl::cpu_isa::avx512_core_bf16); }

template <class T>
inline constexpr dnnl::memory::data_type kOneDnnType =
    std::is_same_v<T, BF16> ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

// Returns oneDNN attributes with which the caller provides a primitive's scratch memory and, if `sum`, the
// primitive adds its result to its output instead of overwriting it.
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
