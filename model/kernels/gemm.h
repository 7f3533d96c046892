#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// An operand of a matrix product: a row-major matrix in memory, with `stride` elements from the start of a
// row to the start of the next. If `transposed`, the operand is the transpose of this matrix.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

// The kernel Gemm computes the product of the matrices a and b: c = a b, or c = addend + a b if `addend` is
// not null, or c += a b if c.accumulate is true. T is the type of the elements of a and b, C that of the
// elements of c: (T, C) is (float, float), (double, double), (BF16, BF16) or (BF16, float). Products of BF16
// are summed in f32, and each sum is rounded once, to type C.
//
// On the CPU, oneDNN multiplies BF16 matrices if UsesBF16Instructions() (onednn.h: AVX-512 BF16) is true, and
// the result c has at least two rows and two columns. If oneDNN does not multiply BF16, each call for BF16
// converts a and b to temporary f32 arrays, and is slower than a call for f32.
//
// On CUDA, cuBLASLt computes the product. cuBLASLt rounds f32 numbers to TF32 (10 bits of mantissa) only if
// CudaDevice::allow_tf32() is true.
template <class T, class C>
struct Gemm {
  int64_t m, n, k;
  Operand<T> a;  // (m, k)
  Operand<T> b;  // (k, n)
  // The matrix c, which gets the result, is (m, n), row-major, with c_stride elements from the start of a row
  // to the next. c must not overlap a or b. If c.accumulate is false, the old elements of c do not influence
  // the result.
  Destination<C*> c;
  int64_t c_stride;
  const C* addend = nullptr;  // stored like c, must not overlap c; null if accumulating

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

template <class T, class C>
inline constexpr bool kBuiltForCuda<Gemm<T, C>> = GRADSYNC_HAVE_CUBLASLT != 0;

// Computes the matrix product c = a b or, if `accumulate`, c += a b on the calling thread alone, so that each
// thread of ParallelFor (parallel.h) can compute products of its own. T, the type of the elements, is float
// or double.
template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate);

// This macro instantiates Gemm's member function Body for the four pairs of types (T, C) of Gemm. Body is
// OnCpu or OnCuda, and must be defined above the macro's use.
#define GRADSYNC_INSTANTIATE_GEMM(Body)                    \
  template void Gemm<float, float>::Body(Device&) const;   \
  template void Gemm<double, double>::Body(Device&) const; \
  template void Gemm<BF16, BF16>::Body(Device&) const;     \
  template void Gemm<BF16, float>::Body(Device&) const

}  // namespace gradsync::model::kernels
