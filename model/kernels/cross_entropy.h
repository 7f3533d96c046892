#ifndef GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_
#define GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"

// The mean over rows of log(sum(exp(row))) - row[target]. Targets are in [0, vocab), rows > 0. T is float,
// double or BF16; log_sum_exp and the loss are in what T is computed in.
namespace gradsync::model::kernels::cpu {

template <class T>
void CrossEntropy(const Device& device, const T* logits,  // (rows, vocab)
                  const int32_t* targets,                 // (rows)
                  int64_t rows, int64_t vocab,
                  Wide<T>* log_sum_exp,  // (rows)
                  Wide<T>* loss);        // one

// dlogits (rows, vocab) = or += (softmax(logits) - one_hot(targets)) * dloss / rows, dloss being one number.
template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets,
                      const Wide<T>* log_sum_exp, const Wide<T>* dloss, int64_t rows, int64_t vocab,
                      T* dlogits, bool accumulate);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device, where nobody has looked at the targets: one outside [0, vocab) makes the loss
// NaN.
namespace gradsync::model::kernels::cuda {

template <class T>
void CrossEntropy(const Device& device, const T* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                  Wide<T>* log_sum_exp, Wide<T>* loss);

template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets,
                      const Wide<T>* log_sum_exp, const Wide<T>* dloss, int64_t rows, int64_t vocab,
                      T* dlogits, bool accumulate);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_
