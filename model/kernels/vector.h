#ifndef GRADSYNC_MODEL_KERNELS_VECTOR_H_
#define GRADSYNC_MODEL_KERNELS_VECTOR_H_

#include <cstdint>

// Elementwise kernels on contiguous arrays of n elements. T is any dtype's C++ type; bf16 is computed in f32
// and rounded once per element. Each runs on the calling thread, so that communication threads can use it.
namespace gradsync::model::kernels::cpu {

// y[i] += x[i]. x and y are the same array or do not overlap.
template <class T>
void Add(const T* x, T* y, int64_t n);

// y[i] = max(x[i], y[i]), and min.
template <class T>
void Max(const T* x, T* y, int64_t n);
template <class T>
void Min(const T* x, T* y, int64_t n);

// y[i] *= factor.
template <class T>
void Scale(T* y, double factor, int64_t n);

}  // namespace gradsync::model::kernels::cpu

#endif  // GRADSYNC_MODEL_KERNELS_VECTOR_H_
