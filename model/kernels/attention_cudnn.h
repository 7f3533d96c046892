#pragma once

#include "model/kernels/attention.h"
#include "model/tensor/device.h"

// Declares functions that compute causal attention and its gradients in bf16 by NVIDIA's library cuDNN.
// Results are bitwise equal in every run. Attention scores and all sums are computed in f32. The softmax's
// probabilities, and the gradients of the scores, are rounded to bf16 before matrix products.
namespace gradsync::model::kernels {

// ByCudnn tries to compute `op`, the forward pass or the gradients of attention, by cuDNN. ByCudnn returns
// true if cuDNN has computed `op`, and false if nothing was computed. cuDNN computes `op` only if cuDNN
// supports the shape, head_dim is a multiple of 8 and at most 128, and all bf16 arrays start at multiples of
// 16 bytes. cuDNN computes gradients only if `op` asks for all of dq, dk and dv, and if all three overwrite
// the old contents of their memory. ByCudnn also returns false in a build without cuDNN, or if cuDNN needs
// more than 4 GiB of scratch memory. cuDNN's algorithm that gives bitwise equal gradients in every run needs
// scratch memory that grows with the square of the sequence length. ByCudnn returns false if cuDNN does not
// support `op`, and throws CudaError if a call of cuDNN fails for another reason.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels
