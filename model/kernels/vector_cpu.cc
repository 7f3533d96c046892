#include <algorithm>

#include "model/dtype.h"
#include "model/kernels/vector.h"

namespace gradsync::model::kernels::cpu {
namespace {

template <class T, class Fn>
void Zip(const T* x, T* y, int64_t n, Fn fn) {
  using C = Wide<T>;
  // Each element depends on its own index alone, so x == y is safe.
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = T(fn(C(x[i]), C(y[i])));
}

}  // namespace

template <class T>
void Add(const T* x, T* y, int64_t n) {
  Zip(x, y, n, [](auto a, auto b) { return a + b; });
}

template <class T>
void Max(const T* x, T* y, int64_t n) {
  Zip(x, y, n, [](auto a, auto b) { return a > b ? a : b; });
}

template <class T>
void Min(const T* x, T* y, int64_t n) {
  Zip(x, y, n, [](auto a, auto b) { return a < b ? a : b; });
}

template <class T>
void Scale(T* y, double factor, int64_t n) {
  using C = Wide<T>;
  const C scale = static_cast<C>(factor);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = T(C(y[i]) * scale);
}

#define GRADSYNC_INSTANTIATE_KERNEL(T)               \
  template void Add<T>(const T* x, T* y, int64_t n); \
  template void Max<T>(const T* x, T* y, int64_t n); \
  template void Min<T>(const T* x, T* y, int64_t n); \
  template void Scale<T>(T * y, double factor, int64_t n);
GRADSYNC_INSTANTIATE_KERNEL(float)
GRADSYNC_INSTANTIATE_KERNEL(double)
GRADSYNC_INSTANTIATE_KERNEL(BF16)
GRADSYNC_INSTANTIATE_KERNEL(int32_t)
GRADSYNC_INSTANTIATE_KERNEL(int64_t)
GRADSYNC_INSTANTIATE_KERNEL(uint8_t)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
