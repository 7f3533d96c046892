#include <cmath>

#include "model/kernels/optimizer.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {

template <class T>
void Sgd(const Device& device, int64_t n, double learning_rate, const T* grad, T* value) {
  const T rate = static_cast<T>(learning_rate);
  ParallelFor(device, n, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) value[i] -= rate * grad[i];
  });
}

template <class T>
void SgdMomentum(const Device& device, int64_t n, double learning_rate, double momentum, const T* grad,
                 T* velocity, T* value) {
  const T rate = static_cast<T>(learning_rate), keep = static_cast<T>(momentum);
  ParallelFor(device, n, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T v = keep * velocity[i] + grad[i];
      velocity[i] = v;
      value[i] -= rate * v;
    }
  });
}

template <class T>
void AdamW(const Device& device, int64_t n, const AdamWFactors& factors, const T* grad, T* mean, T* square,
           T* value) {
  const T decay = static_cast<T>(factors.decay), step_size = static_cast<T>(factors.step_size);
  const T beta1 = static_cast<T>(factors.beta1), rest1 = static_cast<T>(1 - factors.beta1);
  const T beta2 = static_cast<T>(factors.beta2), rest2 = static_cast<T>(1 - factors.beta2);
  const T scale = static_cast<T>(factors.scale), eps = static_cast<T>(factors.eps);
  ParallelFor(device, n, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = grad[i];
      const T m = beta1 * mean[i] + rest1 * g;
      const T s = beta2 * square[i] + rest2 * g * g;
      mean[i] = m;
      square[i] = s;
      value[i] = decay * value[i] - step_size * m / (scale * std::sqrt(s) + eps);
    }
  });
}

#define GRADSYNC_INSTANTIATE(T)                                                           \
  template void Sgd<T>(const Device&, int64_t, double, const T*, T*);                     \
  template void SgdMomentum<T>(const Device&, int64_t, double, double, const T*, T*, T*); \
  template void AdamW<T>(const Device&, int64_t, const AdamWFactors&, const T*, T*, T*, T*);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
