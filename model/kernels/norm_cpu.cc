#include <algorithm>
#include <cmath>

#include "model/kernels/eigen.h"
#include "model/kernels/norm.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {
namespace {

// Rows for one thread to be worth waking.
int64_t RowGrain(int64_t d) { return std::max<int64_t>(1, 8192 / d); }

}  // namespace

template <class T>
void RmsNorm(const Device& device, const T* x, const T* weight, int64_t rows, int64_t d, double eps, T* y,
             T* r) {
  const ConstArrayMap<T> w(weight, d);
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<T> in(x + row * d, d);
          r[row] = T{1} / std::sqrt(in.square().mean() + static_cast<T>(eps));
          ArrayMap<T>(y + row * d, d) = in * r[row] * w;
        }
      },
      RowGrain(d));
}

template <class T>
void RmsNormWeightGrad(const Device& device, const T* x, const T* r, const T* dy, int64_t rows, int64_t d,
                       T* dweight, bool accumulate) {
  // A strip of columns is summed down all rows by one thread: no partial sums to combine, and the result
  // does not depend on the number of threads.
  constexpr int64_t kStrip = 128;
  const int64_t strips = (d + kStrip - 1) / kStrip;
  ParallelFor(
      device, strips,
      [&](int64_t begin, int64_t end) {
        Eigen::Array<T, kStrip, 1> sum;
        for (int64_t col = begin * kStrip; col < std::min(d, end * kStrip); col += kStrip) {
          const int64_t n = std::min(kStrip, d - col);
          sum.setZero();
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t at = row * d + col;
            sum.head(n) += ConstArrayMap<T>(dy + at, n) * ConstArrayMap<T>(x + at, n) * r[row];
          }
          Store(ArrayMap<T>(dweight + col, n), sum.head(n), accumulate);
        }
      },
      1);
}

template <class T>
void RmsNormInputGrad(const Device& device, const T* x, const T* weight, const T* r, const T* dy,
                      int64_t rows, int64_t d, T* dx, bool accumulate) {
  const ConstArrayMap<T> w(weight, d);
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<T> in(x + row * d, d);
          const ConstArrayMap<T> out_grad(dy + row * d, d);
          const T along = (out_grad * w * in).mean() * r[row] * r[row];
          Store(ArrayMap<T>(dx + row * d, d), (out_grad * w - in * along) * r[row], accumulate);
        }
      },
      RowGrain(d));
}

#define GRADSYNC_INSTANTIATE(T)                                                                              \
  template void RmsNorm<T>(const Device&, const T*, const T*, int64_t, int64_t, double, T*, T*);             \
  template void RmsNormWeightGrad<T>(const Device&, const T*, const T*, const T*, int64_t, int64_t, T*,      \
                                     bool);                                                                  \
  template void RmsNormInputGrad<T>(const Device&, const T*, const T*, const T*, const T*, int64_t, int64_t, \
                                    T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
