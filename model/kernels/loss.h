#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

namespace gradsync::model::kernels {

// Writes the mean cross-entropy of the rows of `logits` to `loss`. targets[i] is the index of row i's correct
// class. `rows` must be positive. On the CPU, the caller must check that targets are in [0, vocab). On CUDA,
// if targets are outside [0, vocab), CrossEntropy writes NaN to `loss`. CrossEntropy also writes 1 + the
// position of one of these targets to CudaDevice::wrong_indices().target.
//
// max is each row's maximum, log_sum = log(sum(exp(row - max))), and loss is the mean over the rows of max -
// row[target] + log_sum. The kernel stores max and log_sum, and not their sum, because the sum would lose
// digits of log_sum if max is large.
template <class T>
struct CrossEntropy {
  const T* logits;         // (rows, vocab)
  const int32_t* targets;  // (rows)
  int64_t rows, vocab;
  Wide<T>*max, *log_sum;  // (rows)
  Wide<T>* loss;          // one

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of CrossEntropy, where dloss is the gradient of `loss`: dlogits = (softmax(logits) -
// one_hot(targets)) * dloss / rows.
template <class T>
struct CrossEntropyGrad {
  const T* logits;
  const int32_t* targets;
  const Wide<T>*max, *log_sum;
  const Wide<T>* dloss;  // one
  int64_t rows, vocab;
  Destination<T*> dlogits;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes `loss`, the mean of (x - target)^2 over n elements.
template <class T>
struct SquaredError {
  const T* x;
  const Wide<T>* target;
  int64_t n;
  Wide<T>* loss;  // one

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the gradient of SquaredError for x, which has n elements: dx = 2 (x - target) / n * dloss, where
// dloss is the gradient of `loss`.
template <class T>
struct SquaredErrorGrad {
  const T* x;
  const Wide<T>* target;
  const Wide<T>* dloss;  // one
  int64_t n;
  Destination<T*> dx;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
