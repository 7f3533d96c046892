#pragma once

#include "model/kernels/attention.h"
#include "model/tensor/device.h"

// Computes attention in bf16 by cuDNN. Results are bitwise equal in every run. Scores and sums are f32;
// probabilities and their gradients are rounded to bf16 before matrix products.
namespace gradsync::model::kernels {

// These functions return true if cuDNN has computed the operation, and false if nothing was computed. cuDNN
// is used only if head_dim is a multiple of 8 and at most 128, all arrays start at multiples of 16 bytes,
// and, for the gradients, all of dq, dk and dv are wanted and overwrite their memory instead of adding to it.
// Deterministic gradients also need scratch memory of 2 bytes for each pair of positions of each head, and
// are not computed if this is more than 4 GiB. Throws CudaError if cuDNN fails.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels
