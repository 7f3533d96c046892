#pragma once

#include "model/kernels/layouts.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"

// Declares kernels of causal softmax attention for the CPU and for CUDA. If q, k and v are BF16, scores,
// probabilities and sums are f32, except that cuDNN (attention_cudnn.h) rounds probabilities and the
// gradients of scores to bf16.
//
// The forward pass does not keep the (seq, seq) matrices of scores and probabilities. The backward pass
// computes these matrices again from q, k and each row's log-sum-exp (FlashAttention, arXiv:2205.14135). In
// our own kernels, which are all except cuDNN's, a CPU thread or a CUDA block computes at most 64 rows of a
// (seq, seq) matrix at a time.
//
// On CUDA, CausalAttention and CausalAttentionGrad throw InvalidInput for a head_dim above 128. On GPUs with
// 99 KiB of shared memory per block (compute capability 8.6 and 8.9), our own kernels of CausalAttentionGrad
// throw CudaError for a head_dim above 80.
namespace gradsync::model::kernels {

// Computes out = softmax(q k^T / sqrt(head_dim)) v for each head. Each position attends only to itself and to
// earlier positions.
template <class T>
struct CausalAttention {
  HeadShape shape;
  const T *q, *k, *v;    // shape
  T* out;                // shape
  Wide<T>* log_sum_exp;  // log-sum-exp of the scores: (batch, num_heads, seq)

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Computes the following gradients, with the probabilities p = exp(scores - log_sum_exp) and ds = p * (dout
// v^T - the row's sum of dout * out):
//
//   dv = p^T dout    dq = ds k / sqrt(head_dim)    dk = ds^T q / sqrt(head_dim)
template <class T>
struct CausalAttentionGrad {
  HeadShape shape;
  const T *q, *k, *v;
  const T* out;
  const Wide<T>* log_sum_exp;
  const T* dout;
  Destination<T*> dq, dk, dv;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels
