#include <algorithm>
#include <cmath>

#include "model/kernels/norm.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {

template <class T>
void RmsNorm<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const ConstArrayMap<W> w(weight, d);
  ForRows<T>(device, rows, d, [&](int64_t row, auto& read, auto&, auto& write) {
    const ConstArrayMap<W> in = read(x + row * d, d);
    r[row] = W{1} / std::sqrt(in.square().mean() + static_cast<W>(eps));
    write(y + row * d, d, false, [&](ArrayMap<W> out) { out = in * r[row] * w; });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNorm, OnCpu);

template <class T>
void RmsNormWeightGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  // One thread sums a strip of columns over all rows, so there are no partial sums, and the result does not
  // depend on the number of threads.
  constexpr int64_t kStrip = 128;
  const int64_t strips = (d + kStrip - 1) / kStrip;
  ParallelFor(
      device, strips,
      [&](int64_t begin, int64_t end) {
        Reader<T> read_x(kStrip), read_dy(kStrip);
        Eigen::Array<W, kStrip, 1> sum;
        for (int64_t col = begin * kStrip; col < std::min(d, end * kStrip); col += kStrip) {
          const int64_t n = std::min(kStrip, d - col);
          sum.setZero();
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t at = row * d + col;
            sum.head(n) += read_dy(dy + at, n) * read_x(x + at, n) * r[row];
          }
          Store(ArrayMap<W>(dweight.data + col, n), sum.head(n), dweight.accumulate);
        }
      },
      1);
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormWeightGrad, OnCpu);

template <class T>
void RmsNormInputGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const ConstArrayMap<W> w(weight, d);
  ForRows<T>(device, rows, d, [&](int64_t row, auto& read_x, auto& read_dy, auto& write) {
    const ConstArrayMap<W> in = read_x(x + row * d, d);
    const ConstArrayMap<W> out_grad = read_dy(dy + row * d, d);
    const W along = (out_grad * w * in).mean() * r[row] * r[row];
    write(dx.data + row * d, d, dx.accumulate,
          [&](ArrayMap<W> out) { Store(out, (out_grad * w - in * along) * r[row], dx.accumulate); });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(RmsNormInputGrad, OnCpu);

}  // namespace gradsync::model::kernels
