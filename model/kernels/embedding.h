#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Declares kernels that look up rows of a table by their numbers (ids), such as token ids, and compute the
// table's gradient. The table has `vocab` rows. On the CPU, the caller must check that ids are in [0, vocab),
// because the kernels do not check ids. On CUDA, for each id outside [0, vocab), Embedding writes a row of
// NaN. Embedding also writes 1 + the position of one of these ids to CudaDevice::wrong_indices().id.
// EmbeddingGrad ignores an id outside [0, vocab) on CUDA.
namespace gradsync::model::kernels {

// Computes y[i] = table[ids[i]].
template <class T>
struct Embedding {
  const int32_t* ids;  // (n)
  const T* table;      // (vocab, d)
  int64_t n, vocab, d;
  T* y;  // (n, d)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// For each i, adds row i of dy, the gradient of y, to row ids[i] of dtable, the gradient of the table. If
// dtable.accumulate is false, all of dtable is set to zero first.
template <class T>
struct EmbeddingGrad {
  const int32_t* ids;
  const T* dy;  // (n, d)
  int64_t n, vocab, d;
  Destination<Wide<T>*> dtable;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
