#pragma once

#include "model/device.h"
#include "model/kernels/attention.h"

// Attention in bf16 by cuDNN; all runs give equal bits. Scores and sums are f32; probabilities and their
// gradients are rounded to bf16 before they are multiplied.
namespace gradsync::model::kernels {

// Returns whether cuDNN computed it; if not, nothing has been computed. cuDNN needs heads of a multiple of 8
// columns, at most 128; arrays that start at multiples of 16 bytes; and for gradients all three of them,
// without accumulation. Deterministic gradients take scratch of 2 bytes for each pair of positions of each
// head, at most 4 GiB. False in a build without cuDNN's frontend. Throws CudaError, with pass and shape, if
// cuDNN fails.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels
