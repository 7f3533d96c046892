#pragma once

#include <cstdint>

#include "model/autograd.h"
#include "model/tensor/tensor.h"

// The differentiable operations of the transformer. Floating-point tensors are f32, f64 or bf16 and on one
// device. Within one call all tensors have one dtype, which is also the dtype of the result. For other dtypes
// or shapes than stated, an operation throws InvalidInput with its name, the value found and the value
// expected.
//
// bf16 is for tensors that are stored between operations: each operation computes in f32, including
// statistics and sums, and rounds its result once. RmsNorm's weight and CrossEntropy's result are f32. The
// gradient of Linear's weight is bf16 or f32, the gradient of Embedding's weight is f32. A bf16 weight is the
// copy of a parameter (Parameter).
//
// `...` means any number of leading dimensions, including none.
//
// Each operation keeps for its backward pass (in addition to inputs that other operations keep anyway):
//
//   Linear           x, weight
//   AddLinear        x, weight
//   Embedding        ids
//   RmsNorm          x, weight, one number per row
//   Rope             nothing (its cosines and sines belong to the device)
//   CausalAttention  q, k, v, the output, one number per (batch, head, position)
//   SwiGlu           gate, up
//   Scale            nothing
//   CrossEntropy     logits, targets, one number per position
//
// On CUDA ids and targets are not checked before the call, because a check would stop the host. A wrong id
// gives a row of NaN, a wrong target a loss of NaN, and the next call that waits for the GPU throws
// InvalidInput (see CudaDevice). Heads have at most 128 elements on CUDA.
//
// An input that depends on no parameter receives no gradient. Gradients of parameters are computed first.
namespace gradsync::model {

// Computes x weight^T without a bias. x (..., in), weight (out, in) -> (..., out).
Var Linear(const Var& x, const Var& weight);

// Computes addend + x weight^T, for a residual connection. The sum is computed in f32 inside the product,
// without another pass over memory (on the CPU the addend is copied first). addend (..., out).
Var AddLinear(const Var& addend, const Var& x, const Var& weight);

// Reads rows of a table. ids i32 of any shape, weight (vocab, d) -> shape of ids + (d). Throws InvalidInput
// for an id outside [0, vocab). The gradient is dense, and rows without an id are zero.
// Parameter::touched_rows lists the rows with an id.
Var Embedding(const Tensor& ids, const Var& weight);

// Computes x / sqrt(mean(x^2) + eps) * weight, with the mean over the last dimension. x (..., d), weight (d)
// -> (..., d). Root Mean Square Layer Normalization, arXiv:1910.07467.
Var RmsNorm(const Var& x, const Var& weight, double eps);

// Rotary position embedding, arXiv:2104.09864. x (batch, seq, d_model); d_model is num_heads adjacent heads
// of even size. At position p the pair (x[2i], x[2i+1]) of a head is rotated by the angle p * theta^(-2i /
// head_dim).
Var Rope(const Var& x, int64_t num_heads, double theta);

// Computes softmax(q k^T / sqrt(head_dim)) v for each head. A position uses itself and earlier positions. q,
// k, v and the result are (batch, seq, d_model); d_model is num_heads adjacent heads. No (seq, seq) matrix is
// kept, because backward computes the probabilities again, as in arXiv:2205.14135.
Var CausalAttention(const Var& q, const Var& k, const Var& v, int64_t num_heads);

// Computes silu(gate) * up, where silu(g) = g / (1 + exp(-g)). gate and up have one shape. arXiv:2002.05202.
Var SwiGlu(const Var& gate, const Var& up);

// Computes x * factor.
Var Scale(const Var& x, double factor);

// Returns the mean over all positions of -log(softmax(logits)[target]). logits (..., vocab), targets i32
// (...) -> (). Throws InvalidInput for a target outside [0, vocab), or when there are no positions.
Var CrossEntropy(const Var& logits, const Tensor& targets);

}  // namespace gradsync::model
