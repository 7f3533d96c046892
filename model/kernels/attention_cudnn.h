#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_

#include "model/device.h"
#include "model/kernels/attention.h"

// Attention in bf16 by cuDNN, with the same bits in every run. Scores and sums are f32; probabilities and
// their gradients are rounded to bf16 before they are multiplied.
namespace gradsync::model::kernels {

// Whether cuDNN did it; if not, nothing has been computed. It takes heads of a multiple of 8 columns, at most
// 128, arrays that begin at multiples of 16 bytes, gradients of all three operands, and none that is added to
// what is there. Their fixed order takes scratch of 2 bytes for each pair of positions of each head, at most
// 4 GiB. False in a build without cuDNN's frontend. Throws CudaError, with pass and shape, if cuDNN fails.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_
