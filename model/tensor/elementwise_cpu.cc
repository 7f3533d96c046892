#include <algorithm>

#include "model/tensor/eigen.h"
#include "model/tensor/elementwise.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {
namespace {

// The intermediate results for a piece of this length stay in the first-level cache.
constexpr int64_t kPiece = 512;

// Calls fn(offset, length) for short consecutive pieces of [begin, end).
template <class Fn>
void ForPieces(int64_t begin, int64_t end, const Fn& fn) {
  for (int64_t at = begin; at < end; at += kPiece) fn(at, std::min(kPiece, end - at));
}

template <class From, class To>
void AddSpan(const From* x, int64_t n, To* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<To>(static_cast<Wide<To>>(y[i]) + static_cast<Wide<From>>(x[i]));
}

template <class T>
using Piece = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, kPiece, 1>;  // on the stack

}  // namespace

template <class T>
void Scaled<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read(kPiece);
    Writer<T> write(kPiece);
    ForPieces(begin, end, [&](int64_t at, int64_t length) {
      write(y.data + at, length, y.accumulate, [&](ArrayMap<W> out) {
        Store(out, read(x + at, length) * static_cast<W>(factor), y.accumulate);
      });
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(Scaled, OnCpu);

template <class T>
void Fill<T>::OnCpu(Device& device) const {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    std::fill(y + begin, y + end, static_cast<T>(static_cast<Wide<T>>(value)));
  });
}
GRADSYNC_INSTANTIATE_KERNEL(Fill, OnCpu);

template <class From, class To>
void Cast<From, To>::OnCpu(Device& device) const {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    if (y.accumulate) {
      AddSpan(x + begin, end - begin, y.data + begin);
    } else {
      CastSpan(x + begin, end - begin, y.data + begin);
    }
  });
}
template void Cast<float, BF16>::OnCpu(Device&) const;
template void Cast<BF16, float>::OnCpu(Device&) const;

template <class T>
void AddBias<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const ConstArrayMap<W> addend(bias, d);
  ForRows<T>(device, rows, d, [&](int64_t row, auto& read, auto&, auto& write) {
    write(y + row * d, d, /*accumulate=*/false,
          [&](ArrayMap<W> out) { out = read(x + row * d, d) + addend; });
  });
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
void SquaredSums<T>::OnCpu(Device& device) const {
  ParallelForEach(device, NumPieces(n), 1, [&](int64_t piece) {
    const int64_t end = std::min(n, (piece + 1) * kSumPiece);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = piece * kSumPiece; i < end; ++i) {
      const auto value = static_cast<double>(static_cast<Wide<T>>(x[i]));
      sum += value * value;
    }
    sums[piece] = sum;
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SquaredSums, OnCpu);

template <class T>
void SwiGlu<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read_gate(kPiece), read_up(kPiece);
    Writer<T> write(kPiece);
    ForPieces(begin, end, [&](int64_t at, int64_t length) {
      const ConstArrayMap<W> g = read_gate(gate + at, length);
      write(y + at, length, false,
            [&](ArrayMap<W> out) { out = g / (W{1} + (-g).exp()) * read_up(up + at, length); });
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGlu, OnCpu);

template <class T>
void SwiGluGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read_gate(kPiece), read_up(kPiece), read_dy(kPiece);
    Writer<T> write(kPiece);
    ForPieces(begin, end, [&](int64_t at, int64_t length) {
      const ConstArrayMap<W> g = read_gate(gate + at, length);
      const ConstArrayMap<W> u = read_up(up + at, length);
      const ConstArrayMap<W> out_grad = read_dy(dy + at, length);
      const Piece<W> s = W{1} / (W{1} + (-g).exp());
      if (dup.data != nullptr) {
        write(dup.data + at, length, dup.accumulate,
              [&](ArrayMap<W> out) { Store(out, out_grad * g * s, dup.accumulate); });
      }
      if (dgate.data == nullptr) return;
      write(dgate.data + at, length, dgate.accumulate, [&](ArrayMap<W> out) {
        Store(out, out_grad * u * s * (W{1} + g * (W{1} - s)), dgate.accumulate);
      });
    });
  });
}
GRADSYNC_INSTANTIATE_KERNEL(SwiGluGrad, OnCpu);

}  // namespace gradsync::model::kernels
