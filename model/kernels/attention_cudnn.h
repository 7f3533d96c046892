#pragma once

#include "model/kernels/attention.h"
#include "model/tensor/device.h"

// Computes attention in bf16 by cuDNN. All runs give bitwise equal results. Scores and sums are f32;
// probabilities and their gradients are rounded to bf16 before they are multiplied.
namespace gradsync::model::kernels {

// Returns true if cuDNN computed the operation, and false if nothing was computed. cuDNN needs heads whose
// number of columns is a multiple of 8 and at most 128, arrays that start at multiples of 16 bytes, and, for
// gradients, all three gradients without accumulation. Deterministic gradients need scratch memory of 2 bytes
// for each pair of positions of each head, at most 4 GiB. Returns false in a build without cuDNN's frontend.
// Throws CudaError, with pass and shape, if cuDNN fails.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels
