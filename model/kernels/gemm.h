#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// A row-major matrix in memory, with `stride` elements from one row to the next, optionally transposed.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

// Computes c = a b, c = addend + a b, or c += a b. (T, C) is (float, float), (double, double), (BF16, BF16)
// or (BF16, float). Products of BF16 are added up in f32, and a sum is rounded once, to C.
//
// On the CPU oneDNN multiplies BF16 if the processor has instructions for it (AVX-512 BF16). Otherwise each
// call converts operands to f32 scratch, which is slower than f32.
//
// On CUDA f32 uses TF32 only if the device allows it. cuBLASLt also adds the addend (its beta). The epilogues
// of cuBLASLt for bias and GELU are not used, because products have no biases, SwiGLU multiplies two
// products, and RMSNorm needs whole rows.
template <class T, class C>
struct Gemm {
  int64_t m, n, k;
  Operand<T> a;  // (m, k)
  Operand<T> b;  // (k, n)
  // (m, n), row-major with c_stride elements from one row to the next. c must not overlap a or b. c is not
  // read unless it is accumulated.
  Destination<C*> c;
  int64_t c_stride;
  const C* addend = nullptr;  // stored like c, must not overlap c; only without accumulation

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

template <class T, class C>
inline constexpr bool kBuiltForCuda<Gemm<T, C>> = GRADSYNC_HAVE_CUBLASLT != 0;

// Computes c = a b, or c += a b, on the CPU and the calling thread only, for use inside ParallelFor. T is
// float or double.
template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate);

// Put this after a body, OnCpu or OnCuda: instantiates it for all types.
#define GRADSYNC_INSTANTIATE_GEMM(Body)                    \
  template void Gemm<float, float>::Body(Device&) const;   \
  template void Gemm<double, double>::Body(Device&) const; \
  template void Gemm<BF16, BF16>::Body(Device&) const;     \
  template void Gemm<BF16, float>::Body(Device&) const

}  // namespace gradsync::model::kernels
