#ifndef GRADSYNC_MODEL_KERNELS_GEMM_H_
#define GRADSYNC_MODEL_KERNELS_GEMM_H_

#include <cstdint>

#include "model/device.h"

namespace gradsync::model::kernels {

// A row-major matrix as it is stored, with `stride` elements from one row to the next, taken as it is or
// transposed.
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
  bool transposed = false;
};

namespace cpu {

// c (m, n) = a (m, k) b (k, n), or c += a b. c is row-major with c_stride elements from one row to the next
// and does not overlap a or b. When it does not accumulate, c is not read. T is float or double.
template <class T>
void Gemm(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
          bool accumulate);

// The same on the calling thread alone, for use inside ParallelFor.
template <class T>
void SerialGemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
                bool accumulate);

}  // namespace cpu

// The same on a CUDA device, in f32 with TF32 only if the device allows it.
namespace cuda {

template <class T>
void Gemm(Device& device, int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, int64_t c_stride,
          bool accumulate);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_GEMM_H_
