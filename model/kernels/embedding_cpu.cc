#include <algorithm>

#include "model/kernels/embedding.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {

template <class T>
void Embedding(const Device& device, const int32_t* ids, const T* table, int64_t n, int64_t /*vocab*/,
               int64_t d, T* y) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, d));
  ParallelFor(
      device, n,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) std::copy_n(table + ids[i] * d, d, y + i * d);
      },
      grain);
}

template <class T>
void EmbeddingGrad(const Device& device, const int32_t* ids, const T* dy, int64_t n, int64_t vocab, int64_t d,
                   Wide<T>* dtable, bool accumulate) {
  using W = Wide<T>;
  if (!accumulate) {
    ParallelFor(device, vocab * d,
                [&](int64_t begin, int64_t end) { std::fill(dtable + begin, dtable + end, W{0}); });
  }
  // Several ids may name one row, so threads share out the columns.
  ParallelFor(
      device, d,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < n; ++i) {
          W* row = dtable + ids[i] * d;
          const T* row_grad = dy + i * d;
#pragma omp simd
          for (int64_t col = begin; col < end; ++col) row[col] += static_cast<W>(row_grad[col]);
        }
      },
      64);
}

#define GRADSYNC_INSTANTIATE(T)                                                                       \
  template void Embedding<T>(const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t, T*); \
  template void EmbeddingGrad<T>(const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t,  \
                                 Wide<T>*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
