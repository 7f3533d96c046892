#pragma once

#include <cstdint>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

// Declares the differentiable operations of the transformer. All tensors of a call must be on one device.
// Except where stated, the floating-point tensors of a call have the same dtype, f32, f64 or bf16, which is
// also the dtype of the result. An operation throws InvalidInput if the devices, dtypes or shapes of its
// tensors do not fit together.
//
// With bf16 inputs, an operation computes in f32 and rounds its result to bf16 once; only attention by cuDNN
// also rounds intermediate results. With bf16 inputs, RmsNorm's weight and CrossEntropy's result are f32. The
// gradient of an f32 parameter is f32 even if operations read the parameter's copy in bf16.
//
// In shapes, `...` means any number of leading dimensions, including none.
//
// For its backward pass, each operation keeps these tensors in memory:
//
//   Linear           x, weight
//   AddLinear        x, weight
//   Embedding        ids
//   RmsNorm          x, weight, one number per row
//   Rope             nothing (its cosines and sines belong to the device)
//   CausalAttention  q, k, v, the output, one number per (batch, head, position)
//   SwiGlu           gate, up
//   Scale            nothing
//   CrossEntropy     logits, targets, two numbers per position
//
// On CUDA, Embedding returns a row of NaN for a token id outside the vocabulary, and CrossEntropy returns a
// loss of NaN for a target outside the vocabulary. After such a token id or target, the next
// CudaDevice::Synchronize, or CudaDevice::Copy of 1 byte or more from or to CPU memory, throws InvalidInput.
// On CUDA, CausalAttention throws InvalidInput if head_dim is above 128.
//
// In backward, an operation with a weight computes the gradient of the weight before the gradients of the
// other inputs, so that ranks can send the weight's gradient early. An input that neither is a trained
// parameter nor depends on one gets no gradient.
namespace gradsync::model {

// Computes x weight^T without a bias. x is (..., in), weight is (out, in), and the result is (..., out).
Var Linear(const Var& x, const Var& weight);

// Computes addend + x weight^T, for a residual connection. With bf16, the addend is added in f32 before the
// result is rounded. x is (..., in), weight is (out, in), and addend and the result are (..., out).
Var AddLinear(const Var& addend, const Var& x, const Var& weight);

// Returns the row weight[id] for each id. ids is (...) of i32, weight is (vocab, d), and the result is (...,
// d). On the CPU, throws InvalidInput for an id outside [0, vocab). What Embedding adds to the gradient of
// weight is zero in the rows whose ids do not occur. After backward, touched_rows() of a parameter `weight`
// returns the ids that occur. If an operation such as Linear also adds to the gradient of weight,
// touched_rows() returns null.
Var Embedding(const Tensor& ids, const Var& weight);

// Root Mean Square Layer Normalization, arXiv:1910.07467: computes x / sqrt(mean(x^2) + eps) * weight, with
// the mean over the last dimension. x and the result are (..., d), and weight is (d).
Var RmsNorm(const Var& x, const Var& weight, double eps);

// Rotary position embedding, arXiv:2104.09864. x and the result are (batch, seq, d_model), where d_model is
// num_heads * head_dim and head_dim is even. At position p (counted from 0), rotates the pair (x[2i],
// x[2i+1]) of each head by the angle p * theta^(-2i / head_dim).
Var Rope(const Var& x, int64_t num_heads, double theta);

// Computes softmax(q k^T / sqrt(head_dim)) v for each head. Each position attends only to itself and earlier
// positions. q, k, v and the result are (batch, seq, d_model), where d_model is num_heads * head_dim.
// Backward computes the (seq, seq) probabilities again instead of keeping them, as in arXiv:2205.14135.
Var CausalAttention(const Var& q, const Var& k, const Var& v, int64_t num_heads);

// Computes silu(gate) * up, where silu(g) = g / (1 + exp(-g)): arXiv:2002.05202. gate, up and the result have
// the same shape.
Var SwiGlu(const Var& gate, const Var& up);

Var Scale(const Var& x, double factor);

// Returns the mean over all positions of -log(softmax(logits)[target]). logits is (..., vocab), targets is
// (...) of i32, and the result is (). Throws InvalidInput if there are no positions or, on the CPU, for a
// target outside [0, vocab). On CUDA, a target outside [0, vocab) gives a loss of NaN; the next
// CudaDevice::Synchronize, or CudaDevice::Copy of 1 byte or more from or to CPU memory, throws InvalidInput.
Var CrossEntropy(const Var& logits, const Tensor& targets);

}  // namespace gradsync::model
