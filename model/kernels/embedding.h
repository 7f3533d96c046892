#ifndef GRADSYNC_MODEL_KERNELS_EMBEDDING_H_
#define GRADSYNC_MODEL_KERNELS_EMBEDDING_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"

// Looking rows up in a table. ids are in [0, vocab). T is float, double or BF16; the gradient is in what T
// is computed in.
namespace gradsync::model::kernels::cpu {

template <class T>
void Embedding(const Device& device, const int32_t* ids,  // (n)
               const T* table,                            // (vocab, d)
               int64_t n, int64_t vocab, int64_t d,
               T* y);  // (n, d)

// dtable (vocab, d) = or += dy (n, d) added into the rows that ids name. The gradient is dense: unless it is
// accumulated, the table is zero-filled first.
template <class T>
void EmbeddingGrad(const Device& device, const int32_t* ids, const T* dy, int64_t n, int64_t vocab, int64_t d,
                   Wide<T>* dtable, bool accumulate);

}  // namespace gradsync::model::kernels::cpu

// The same on a CUDA device, where nobody has looked at the ids: one outside [0, vocab) makes a row of NaN,
// and adds to no row of the gradient.
namespace gradsync::model::kernels::cuda {

template <class T>
void Embedding(const Device& device, const int32_t* ids, const T* table, int64_t n, int64_t vocab, int64_t d,
               T* y);

template <class T>
void EmbeddingGrad(const Device& device, const int32_t* ids, const T* dy, int64_t n, int64_t vocab, int64_t d,
                   Wide<T>* dtable, bool accumulate);

}  // namespace gradsync::model::kernels::cuda

#endif  // GRADSYNC_MODEL_KERNELS_EMBEDDING_H_
