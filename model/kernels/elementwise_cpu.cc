#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {
namespace {

// What a kernel keeps for a piece of this length stays in the first-level cache.
constexpr int64_t kPiece = 512;

// Calls fn(offset, length) for short consecutive pieces of [begin, end).
template <class Fn>
void ForPieces(int64_t begin, int64_t end, const Fn& fn) {
  for (int64_t at = begin; at < end; at += kPiece) fn(at, std::min(kPiece, end - at));
}

template <class T>
using Piece = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, kPiece, 1>;  // on the stack

}  // namespace

template <class T>
void Sum(const Device& device, const T* a, const T* b, int64_t n, T* y) {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read_a(kPiece), read_b(kPiece);
    Writer<T> write(kPiece);
    ForPieces(begin, end, [&](int64_t at, int64_t length) {
      write(y + at, length, false,
            [&](ArrayMap<Wide<T>> out) { out = read_a(a + at, length) + read_b(b + at, length); });
    });
  });
}

template <class T>
void Scaled(const Device& device, const T* x, double factor, int64_t n, T* y, bool accumulate) {
  using W = Wide<T>;
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    Reader<T> read(kPiece);
    Writer<T> write(kPiece);
    ForPieces(begin, end, [&](int64_t at, int64_t length) {
      write(y + at, length, accumulate,
            [&](ArrayMap<W> out) { Store(out, read(x + at, length) * static_cast<W>(factor), accumulate); });
    });
  });
}

void Round(const Device& device, const float* x, int64_t n, BF16* y) {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) { ConvertSpan(x + begin, end - begin, y + begin); });
}

template <class T>
void SwiGlu(const Device& device, const T* gate, const T* up, int64_t n, T* y) {
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

template <class T>
void SwiGluGrad(const Device& device, const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                Target<T> dup) {
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

#define GRADSYNC_INSTANTIATE(T)                                                \
  template void Sum<T>(const Device&, const T*, const T*, int64_t, T*);        \
  template void Scaled<T>(const Device&, const T*, double, int64_t, T*, bool); \
  template void SwiGlu<T>(const Device&, const T*, const T*, int64_t, T*);     \
  template void SwiGluGrad<T>(const Device&, const T*, const T*, const T*, int64_t, Target<T>, Target<T>);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
