#ifndef GRADSYNC_MODEL_KERNELS_GEMM_H_
#define GRADSYNC_MODEL_KERNELS_GEMM_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"

namespace gradsync::model::kernels {

// A row-major matrix as it is stored, with `stride` elements from one row to the next, taken as it is or
// transposed.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

// Matrix products on (T, C) of (float, float), (double, double), (BF16, BF16) or (BF16, float). Products of
// BF16 are added up in f32, and a sum is rounded once, to C.
namespace cpu {

// c (m, n) = a (m, k) b (k, n), or c += a b. c is row-major with c_stride elements from one row to the next
// and does not overlap a or b. When it does not accumulate, c is not read.
//
// BF16 is multiplied by oneDNN where the processor has instructions for it (AVX-512 BF16). Elsewhere operands
// are converted to f32 scratch in each call: right, and slower than f32.
template <class T, class C>
void Gemm(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, C* c, int64_t c_stride,
          bool accumulate);

// c = addend + a b. addend is stored like c and does not overlap it. C is T.
template <class T>
void GemmPlus(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const T* addend,
              T* c, int64_t c_stride);

// Gemm on the calling thread alone, for use inside ParallelFor. T is float or double.
template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate);

}  // namespace cpu

// The same on a CUDA device, in f32 with TF32 only if the device allows it.
//
// Of what cuBLASLt can do on the way out only the addend is used (its beta). Its bias and GELU epilogues have
// nothing to do here: the models have no biases beside their products, SwiGLU multiplies two products, and
// RMSNorm needs whole rows first.
namespace cuda {

template <class T, class C>
void Gemm(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, C* c, int64_t c_stride,
          bool accumulate);

template <class T>
void GemmPlus(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, const T* addend,
              T* c, int64_t c_stride);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_GEMM_H_
