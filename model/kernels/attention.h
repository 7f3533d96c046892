#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_H_

#include <cstdint>

#include "model/device.h"
#include "model/dtype.h"
#include "model/kernels/target.h"

// Causal softmax attention. Queries, keys and values stay as the projections leave them: (batch, seq,
// num_heads * head_dim), a head being a range of columns. T is float, double or BF16, for which scores,
// probabilities and all sums are f32.
//
// The (seq, seq) matrices exist a block of query rows at a time, against only the keys that the block may
// see. Backward computes them again from the rows' log-sum-exp (FlashAttention, arXiv:2205.14135).
namespace gradsync::model::kernels {

struct AttentionShape {
  int64_t batch;
  int64_t seq;
  int64_t num_heads;
  int64_t head_dim;

  constexpr int64_t d_model() const { return num_heads * head_dim; }
};

namespace cpu {

template <class T>
void CausalAttention(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v, T* out,
                     Wide<T>* log_sum_exp);  // (batch, num_heads, seq)

// out and log_sum_exp are CausalAttention's. dq, dk, dv have the shape of q; any of them may be left out.
template <class T>
void CausalAttentionGrad(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v,
                         const T* out, const Wide<T>* log_sum_exp, const T* dout, Target<T> dq, Target<T> dk,
                         Target<T> dv);

}  // namespace cpu

// The same on a CUDA device. Throws InvalidInput for a head_dim above 128.
namespace cuda {

template <class T>
void CausalAttention(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v, T* out,
                     Wide<T>* log_sum_exp);

template <class T>
void CausalAttentionGrad(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v,
                         const T* out, const Wide<T>* log_sum_exp, const T* dout, Target<T> dq, Target<T> dk,
                         Target<T> dv);

}  // namespace cuda
}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_H_
