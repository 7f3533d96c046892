#include <cmath>

#include "model/kernels/cross_entropy.h"
#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {

template <class T>
void CrossEntropy(const Device& device, const T* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                  T* log_sum_exp, T* loss) {
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<T> in(logits + row * vocab, vocab);
          const T max = in.maxCoeff();
          log_sum_exp[row] = max + std::log((in - max).exp().sum());
        }
      },
      1);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) sum += log_sum_exp[row] - logits[row * vocab + targets[row]];
  *loss = static_cast<T>(sum / static_cast<double>(rows));
}

template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets, const T* log_sum_exp,
                      const T* dloss, int64_t rows, int64_t vocab, T* dlogits, bool accumulate) {
  const T factor = *dloss / static_cast<T>(rows);
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<T> in(logits + row * vocab, vocab);
          Store(ArrayMap<T>(dlogits + row * vocab, vocab), (in - log_sum_exp[row]).exp() * factor,
                accumulate);
          dlogits[row * vocab + targets[row]] -= factor;
        }
      },
      1);
}

#define GRADSYNC_INSTANTIATE(T)                                                                           \
  template void CrossEntropy<T>(const Device&, const T*, const int32_t*, int64_t, int64_t, T*, T*);       \
  template void CrossEntropyGrad<T>(const Device&, const T*, const int32_t*, const T*, const T*, int64_t, \
                                    int64_t, T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
