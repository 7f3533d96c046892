#include <algorithm>
#include <cmath>

#include "model/kernels/loss.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {

template <class T>
void CrossEntropy<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  ForRows<T>(device, rows, vocab, [&](int64_t row, auto& read, auto&, auto&) {
    const ConstArrayMap<W> in = read(logits + row * vocab, vocab);
    max[row] = in.maxCoeff();
    log_sum[row] = std::log((in - max[row]).exp().sum());
  });
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row)
    sum += max[row] - static_cast<W>(logits[row * vocab + targets[row]]) + log_sum[row];
  *loss = static_cast<W>(sum / static_cast<double>(rows));
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropy, OnCpu);

template <class T>
void CrossEntropyGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const W factor = *dloss / static_cast<W>(rows);
  ForRows<T>(device, rows, vocab, [&](int64_t row, auto& read, auto&, auto& write) {
    const ConstArrayMap<W> in = read(logits + row * vocab, vocab);
    write(dlogits.data + row * vocab, vocab, dlogits.accumulate, [&](ArrayMap<W> out) {
      Store(out, (in - max[row] - log_sum[row]).exp() * factor, dlogits.accumulate);
      out[targets[row]] -= factor;
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CrossEntropyGrad, OnCpu);

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
  constexpr int64_t kPiece = 4096;
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
