#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/elementwise.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {
namespace {

// Calls fn(offset, length) for short consecutive pieces of [0, n), shared out to the threads. What fn keeps
// for one piece stays in the first-level cache.
constexpr int64_t kPiece = 512;

template <class Fn>
void ForPieces(const Device& device, int64_t n, const Fn& fn) {
  ParallelFor(device, n, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; at += kPiece) fn(at, std::min(kPiece, end - at));
  });
}

template <class T>
using Piece = Eigen::Array<T, Eigen::Dynamic, 1, Eigen::ColMajor, kPiece, 1>;  // on the stack

}  // namespace

template <class T>
void Sum(const Device& device, const T* a, const T* b, int64_t n, T* y) {
  ForPieces(device, n, [&](int64_t at, int64_t length) {
    ArrayMap<T>(y + at, length) = ConstArrayMap<T>(a + at, length) + ConstArrayMap<T>(b + at, length);
  });
}

template <class T>
void Scaled(const Device& device, const T* x, double factor, int64_t n, T* y, bool accumulate) {
  ForPieces(device, n, [&](int64_t at, int64_t length) {
    Store(ArrayMap<T>(y + at, length), ConstArrayMap<T>(x + at, length) * static_cast<T>(factor), accumulate);
  });
}

template <class T>
void SwiGlu(const Device& device, const T* gate, const T* up, int64_t n, T* y) {
  ForPieces(device, n, [&](int64_t at, int64_t length) {
    const ConstArrayMap<T> g(gate + at, length);
    ArrayMap<T>(y + at, length) = g / (T{1} + (-g).exp()) * ConstArrayMap<T>(up + at, length);
  });
}

template <class T>
void SwiGluGrad(const Device& device, const T* gate, const T* up, const T* dy, int64_t n, Target<T> dgate,
                Target<T> dup) {
  ForPieces(device, n, [&](int64_t at, int64_t length) {
    const ConstArrayMap<T> g(gate + at, length);
    const ConstArrayMap<T> u(up + at, length);
    const ConstArrayMap<T> out_grad(dy + at, length);
    const Piece<T> s = T{1} / (T{1} + (-g).exp());
    if (dup.data != nullptr) Store(ArrayMap<T>(dup.data + at, length), out_grad * g * s, dup.accumulate);
    if (dgate.data != nullptr) {
      Store(ArrayMap<T>(dgate.data + at, length), out_grad * u * s * (T{1} + g * (T{1} - s)),
            dgate.accumulate);
    }
  });
}

#define GRADSYNC_INSTANTIATE(T)                                                \
  template void Sum<T>(const Device&, const T*, const T*, int64_t, T*);        \
  template void Scaled<T>(const Device&, const T*, double, int64_t, T*, bool); \
  template void SwiGlu<T>(const Device&, const T*, const T*, int64_t, T*);     \
  template void SwiGluGrad<T>(const Device&, const T*, const T*, const T*, int64_t, Target<T>, Target<T>);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
