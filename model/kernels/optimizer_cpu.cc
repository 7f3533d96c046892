#include <algorithm>
#include <cmath>

#include "model/kernels/eigen.h"
#include "model/kernels/optimizer.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels {
namespace {

// Calls update(begin, end) for parts of [0, n), and makes a copy of what it wrote to value while that is in
// the first-level cache.
template <class T, class Update>
void ForParts(const Device& device, int64_t n, const T* value, BF16* copy, const Update& update) {
  constexpr int64_t kPart = 1024;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    if (copy == nullptr) return update(begin, end);
    for (int64_t at = begin; at < end; at += kPart) {
      const int64_t length = std::min(kPart, end - at);
      update(at, at + length);
      CastSpan(value + at, length, copy + at);
    }
  });
}

// Elements [begin, end). All it reads in the loop are its own locals: of a lambda's captures the compiler
// must think that writing an element may change them.
template <class T>
void SgdPart(const SgdTensor<T> tensor, double learning_rate, double momentum, int64_t begin, int64_t end) {
  const T rate = static_cast<T>(learning_rate), keep = static_cast<T>(momentum);
  const T* const grad = tensor.grad;
  T* const velocity = tensor.velocity;
  T* const value = tensor.value;
  if (velocity == nullptr) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) value[i] -= rate * grad[i];
    return;
  }
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const T v = keep * velocity[i] + grad[i];
    velocity[i] = v;
    value[i] -= rate * v;
  }
}

template <class T>
void AdamWPart(const AdamWTensor<T> tensor, const AdamWFactors factors, int64_t begin, int64_t end) {
  const T decay = static_cast<T>(factors.decay), step_size = static_cast<T>(factors.step_size);
  const T beta1 = static_cast<T>(factors.beta1), rest1 = static_cast<T>(1 - factors.beta1);
  const T beta2 = static_cast<T>(factors.beta2), rest2 = static_cast<T>(1 - factors.beta2);
  const T scale = static_cast<T>(factors.scale), eps = static_cast<T>(factors.eps);
  const T* const grad = tensor.grad;
  T* const mean = tensor.mean;
  T* const square = tensor.square;
  T* const value = tensor.value;
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const T g = grad[i];
    const T m = beta1 * mean[i] + rest1 * g;
    const T s = beta2 * square[i] + rest2 * g * g;
    mean[i] = m;
    square[i] = s;
    value[i] = decay * value[i] - step_size * m / (scale * std::sqrt(s) + eps);
  }
}

}  // namespace

template <class T>
void Sgd<T>::OnCpu(Device& device) const {
  for (const SgdTensor<T>& tensor : tensors) {
    ForParts(device, tensor.n, tensor.value, tensor.copy,
             [&](int64_t begin, int64_t end) { SgdPart(tensor, learning_rate, momentum, begin, end); });
  }
}
template void Sgd<float>::OnCpu(Device&) const;
template void Sgd<double>::OnCpu(Device&) const;

template <class T>
void AdamW<T>::OnCpu(Device& device) const {
  for (const AdamWTensor<T>& tensor : tensors) {
    ForParts(device, tensor.n, tensor.value, tensor.copy,
             [&](int64_t begin, int64_t end) { AdamWPart(tensor, factors, begin, end); });
  }
}
template void AdamW<float>::OnCpu(Device&) const;
template void AdamW<double>::OnCpu(Device&) const;

}  // namespace gradsync::model::kernels
