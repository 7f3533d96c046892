#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/regression.h"

namespace gradsync::model::kernels::cpu {

template <class T>
void AddBias(const Device& device, const T* x, const T* bias, int64_t rows, int64_t d, T* y) {
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          ArrayMap<T>(y + row * d, d) = ConstArrayMap<T>(x + row * d, d) + ConstArrayMap<T>(bias, d);
        }
      },
      std::max<int64_t>(1, 4096 / d));
}

template <class T>
void BiasGrad(const Device& device, const T* dy, int64_t rows, int64_t d, T* dbias, bool accumulate) {
  ParallelFor(
      device, d,
      [&](int64_t begin, int64_t end) {
        ArrayMap<T> sum(dbias + begin, end - begin);
        if (!accumulate) sum.setZero();
        for (int64_t row = 0; row < rows; ++row) sum += ConstArrayMap<T>(dy + row * d + begin, end - begin);
      },
      256);
}

template <class T>
void SquaredError(const Device& /*device*/, const T* x, const T* target, int64_t n, T* loss) {
  const auto error =
      ConstArrayMap<T>(x, n).template cast<double>() - ConstArrayMap<T>(target, n).template cast<double>();
  *loss = static_cast<T>(error.square().mean());
}

template <class T>
void SquaredErrorGrad(const Device& device, const T* x, const T* target, const T* dloss, int64_t n, T* dx,
                      bool accumulate) {
  const T factor = T{2} / static_cast<T>(n) * *dloss;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    const int64_t length = end - begin;
    const auto error = ConstArrayMap<T>(x + begin, length) - ConstArrayMap<T>(target + begin, length);
    Store(ArrayMap<T>(dx + begin, length), error * factor, accumulate);
  });
}

#define GRADSYNC_INSTANTIATE(T)                                                      \
  template void AddBias<T>(const Device&, const T*, const T*, int64_t, int64_t, T*); \
  template void BiasGrad<T>(const Device&, const T*, int64_t, int64_t, T*, bool);    \
  template void SquaredError<T>(const Device&, const T*, const T*, int64_t, T*);     \
  template void SquaredErrorGrad<T>(const Device&, const T*, const T*, const T*, int64_t, T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
