#include <algorithm>

#include "model/kernels/embedding.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {

template <class T>
void Embedding<T>::OnCpu(Device& device) const {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, d));
  ParallelForEach(device, n, grain, [&](int64_t i) { std::copy_n(table + ids[i] * d, d, y + i * d); });
}
GRADSYNC_INSTANTIATE_KERNEL(Embedding, OnCpu);

template <class T>
void EmbeddingGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  if (!dtable.accumulate) {
    ParallelFor(device, vocab * d,
                [&](int64_t begin, int64_t end) { std::fill(dtable.data + begin, dtable.data + end, W{0}); });
  }
  // Several ids may name one row, so columns are divided among the threads.
  ParallelFor(
      device, d,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = 0; i < n; ++i) {
          W* row = dtable.data + ids[i] * d;
          const T* row_grad = dy + i * d;
#pragma omp simd
          for (int64_t col = begin; col < end; ++col) row[col] += static_cast<W>(row_grad[col]);
        }
      },
      64);
}
GRADSYNC_INSTANTIATE_KERNEL(EmbeddingGrad, OnCpu);

}  // namespace gradsync::model::kernels
