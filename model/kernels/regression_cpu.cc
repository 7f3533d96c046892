#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/regression.h"

namespace gradsync::model::kernels {
namespace {

constexpr int64_t kPiece = 4096;

}  // namespace

template <class T>
void AddBias<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const ConstArrayMap<W> addend(bias, d);
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(d);
        Writer<T> write(d);
        for (int64_t row = begin; row < end; ++row) {
          write(y + row * d, d, /*accumulate=*/false,
                [&](ArrayMap<W> out) { out = read(x + row * d, d) + addend; });
        }
      },
      std::max<int64_t>(1, 4096 / d));
}
GRADSYNC_INSTANTIATE_KERNEL(AddBias, OnCpu);

template <class T>
void BiasGrad<T>::OnCpu(Device& device) const {
  ParallelFor(
      device, d,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(end - begin);
        ArrayMap<Wide<T>> sum(dbias.data + begin, end - begin);
        if (!dbias.accumulate) sum.setZero();
        for (int64_t row = 0; row < rows; ++row) sum += read(dy + row * d + begin, end - begin);
      },
      256);
}
GRADSYNC_INSTANTIATE_KERNEL(BiasGrad, OnCpu);

template <class T>
void SquaredError<T>::OnCpu(Device& /*device*/) const {
  Reader<T> read(n);
  const auto error =
      read(x, n).template cast<double>() - ConstArrayMap<Wide<T>>(target, n).template cast<double>();
  *loss = static_cast<Wide<T>>(error.square().mean());
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredError, OnCpu);

template <class T>
void SquaredErrorGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const W factor = W{2} / static_cast<W>(n) * *dloss;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read(kPiece);
    Writer<T> write(kPiece);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t length = std::min(kPiece, end - at);
      write(dx.data + at, length, dx.accumulate, [&](ArrayMap<W> out) {
        Store(out, (read(x + at, length) - ConstArrayMap<W>(target + at, length)) * factor, dx.accumulate);
      });
    }
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredErrorGrad, OnCpu);

}  // namespace gradsync::model::kernels
