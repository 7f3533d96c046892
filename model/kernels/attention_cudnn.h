#pragma once

#include "model/kernels/attention.h"
#include "model/tensor/device.h"

// Computes attention in bf16 by cuDNN. Results are bitwise equal in every run. Scores and sums are f32;
// probabilities and their gradients are rounded to bf16 before matrix products.
namespace gradsync::model::kernels {

// The functions ByCudnn return true if cuDNN has computed `op`, and false if nothing was computed. cuDNN is
// used only if it supports the shape, head_dim is a multiple of 8 and at most 128, and all bf16 arrays start
// at multiples of 16 bytes. For the gradients, all of dq, dk and dv must also be wanted, and overwrite their
// memory instead of adding to it. cuDNN is not used if it needs more than 4 GiB of scratch memory. The
// scratch memory for deterministic gradients grows with the square of the sequence length. ByCudnn throws
// CudaError if a call of cuDNN fails.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels
