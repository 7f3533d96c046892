#ifndef GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_
#define GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_

#include <cstdint>

#include "model/device.h"

// The mean over rows of log(sum(exp(row))) - row[target]. Targets are in [0, vocab), rows > 0. T is float or
// double.
namespace gradsync::model::kernels::cpu {

template <class T>
void CrossEntropy(const Device& device, const T* logits,  // (rows, vocab)
                  const int32_t* targets,                 // (rows)
                  int64_t rows, int64_t vocab,
                  T* log_sum_exp,  // (rows)
                  T* loss);        // one

// dlogits (rows, vocab) = or += (softmax(logits) - one_hot(targets)) * dloss / rows, dloss being one number.
template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets, const T* log_sum_exp,
                      const T* dloss, int64_t rows, int64_t vocab, T* dlogits, bool accumulate);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device, where nobody has looked at the targets: one outside [0, vocab) makes the loss
// NaN.
namespace gradsync::model::kernels::cuda {

template <class T>
void CrossEntropy(const Device& device, const T* logits, const int32_t* targets, int64_t rows, int64_t vocab,
                  T* log_sum_exp, T* loss);

template <class T>
void CrossEntropyGrad(const Device& device, const T* logits, const int32_t* targets, const T* log_sum_exp,
                      const T* dloss, int64_t rows, int64_t vocab, T* dlogits, bool accumulate);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_CROSS_ENTROPY_H_
