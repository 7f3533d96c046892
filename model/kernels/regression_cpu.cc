#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"
#include "model/kernels/regression.h"

namespace gradsync::model::kernels::cpu {

namespace {

constexpr int64_t kPiece = 4096;

}  // namespace

template <class T>
void AddBias(const Device& device, const T* x, const Wide<T>* bias, int64_t rows, int64_t d, T* y) {
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

template <class T>
void BiasGrad(const Device& device, const T* dy, int64_t rows, int64_t d, Wide<T>* dbias, bool accumulate) {
  ParallelFor(
      device, d,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(end - begin);
        ArrayMap<Wide<T>> sum(dbias + begin, end - begin);
        if (!accumulate) sum.setZero();
        for (int64_t row = 0; row < rows; ++row) sum += read(dy + row * d + begin, end - begin);
      },
      256);
}

template <class T>
void SquaredError(const Device& /*device*/, const T* x, const Wide<T>* target, int64_t n, Wide<T>* loss) {
  Reader<T> read(n);
  const auto error =
      read(x, n).template cast<double>() - ConstArrayMap<Wide<T>>(target, n).template cast<double>();
  *loss = static_cast<Wide<T>>(error.square().mean());
}

template <class T>
void SquaredErrorGrad(const Device& device, const T* x, const Wide<T>* target, const Wide<T>* dloss,
                      int64_t n, T* dx, bool accumulate) {
  using W = Wide<T>;
  const W factor = W{2} / static_cast<W>(n) * *dloss;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read(kPiece);
    Writer<T> write(kPiece);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t length = std::min(kPiece, end - at);
      write(dx + at, length, accumulate, [&](ArrayMap<W> out) {
        Store(out, (read(x + at, length) - ConstArrayMap<W>(target + at, length)) * factor, accumulate);
      });
    }
  });
}

#define GRADSYNC_INSTANTIATE(T)                                                                           \
  template void AddBias<T>(const Device&, const T*, const Wide<T>*, int64_t, int64_t, T*);                \
  template void BiasGrad<T>(const Device&, const T*, int64_t, int64_t, Wide<T>*, bool);                   \
  template void SquaredError<T>(const Device&, const T*, const Wide<T>*, int64_t, Wide<T>*);              \
  template void SquaredErrorGrad<T>(const Device&, const T*, const Wide<T>*, const Wide<T>*, int64_t, T*, \
                                    bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
