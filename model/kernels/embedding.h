#pragma once

#include <cstdint>

#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Kernels of a table lookup. On the CPU, ids must be in [0, vocab). On CUDA, an id outside [0, vocab) gives a
// row of NaN, adds to no row of the gradient, and is reported in CudaDevice::wrong_indices().
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

// Computes dtable[ids[i]] += dy[i]. If dtable.accumulate is false, all of dtable is set to zero first.
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
