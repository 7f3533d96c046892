#include <cmath>

#include "model/kernels/cross_entropy.h"
#include "model/kernels/eigen.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels::cpu {

template <class T>
void CrossEntropy(const Device& device, const T* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                  Wide<T>* log_sum_exp, Wide<T>* loss) {
  using W = Wide<T>;
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(vocab);
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<W> in = read(logits + row * vocab, vocab);
          const W max = in.maxCoeff();
          log_sum_exp[row] = max + std::log((in - max).exp().sum());
        }
      },
      1);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    sum += log_sum_exp[row] - static_cast<W>(logits[row * vocab + targets[row]]);
  }
  *loss = static_cast<W>(sum / static_cast<double>(rows));
}

template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets,
                      const Wide<T>* log_sum_exp, const Wide<T>* dloss, int64_t rows, int64_t vocab,
                      T* dlogits, bool accumulate) {
  using W = Wide<T>;
  const W factor = *dloss / static_cast<W>(rows);
  ParallelFor(
      device, rows,
      [&](int64_t begin, int64_t end) {
        Reader<T> read(vocab);
        Writer<T> write(vocab);
        for (int64_t row = begin; row < end; ++row) {
          const ConstArrayMap<W> in = read(logits + row * vocab, vocab);
          write(dlogits + row * vocab, vocab, accumulate, [&](ArrayMap<W> out) {
            Store(out, (in - log_sum_exp[row]).exp() * factor, accumulate);
            out[targets[row]] -= factor;
          });
        }
      },
      1);
}

#define GRADSYNC_INSTANTIATE(T)                                                                              \
  template void CrossEntropy<T>(const Device&, const T*, const int32_t*, int64_t, int64_t, Wide<T>*,         \
                                Wide<T>*);                                                                   \
  template void CrossEntropyGrad<T>(const Device&, const T*, const int32_t*, const Wide<T>*, const Wide<T>*, \
                                    int64_t, int64_t, T*, bool);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
GRADSYNC_INSTANTIATE(BF16)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
