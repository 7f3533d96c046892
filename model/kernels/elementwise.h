#ifndef GRADSYNC_MODEL_KERNELS_ELEMENTWISE_H_
#define GRADSYNC_MODEL_KERNELS_ELEMENTWISE_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"
#include "model/kernels/target.h"

// Elementwise operations on contiguous arrays of n elements with all of the device's threads. T is float,
// double or BF16, which is computed in f32 and rounded once.
namespace gradsync::model::kernels::cpu {

// y = a + b.
template <class T>
void Sum(const Device& device, const T* a, const T* b, int64_t n, T* y);

// y = or += x * factor.
template <class T>
void Scaled(const Device& device, const T* x, double factor, int64_t n, T* y, bool accumulate);

// y = x, rounded to nearest.
void Round(const Device& device, const float* x, int64_t n, BF16* y);

// y = gate * s * up, where s = 1 / (1 + exp(-gate)).
template <class T>
void SwiGlu(const Device& device, const T* gate, const T* up, int64_t n, T* y);

// dgate = or += dy * up * s * (1 + gate * (1 - s));  dup = or += dy * gate * s.
template <class T>
void SwiGluGrad(const Device& device, const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                Target<T> dup);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device.
namespace gradsync::model::kernels::cuda {

template <class T>
void Sum(const Device& device, const T* a, const T* b, int64_t n, T* y);

template <class T>
void Scaled(const Device& device, const T* x, double factor, int64_t n, T* y, bool accumulate);

// y = value.
template <class T>
void Fill(const Device& device, double value, int64_t n, T* y);

// y = x, rounded to nearest.
void Round(const Device& device, const float* x, int64_t n, BF16* y);

// y = or += x.
void Widened(const Device& device, const BF16* x, int64_t n, float* y, bool accumulate);

template <class T>
void SwiGlu(const Device& device, const T* gate, const T* up, int64_t n, T* y);

template <class T>
void SwiGluGrad(const Device& device, const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                Target<T> dup);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_ELEMENTWISE_H_
