#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_

#include "model/device.h"
#include "model/kernels/attention.h"

// Attention in bf16 by cuDNN: on an H200 forward takes a tenth of the time of the kernels of
// attention_cuda.cu.
namespace gradsync::model::kernels {

// Whether cuDNN did it; if not, nothing has been computed. It takes heads of a multiple of 8 columns,
// gradients of all three operands, and none that is added to what is there. False in a build without cuDNN's
// frontend.
bool ByCudnn(Device& device, const CausalAttention<BF16>& op);
bool ByCudnn(Device& device, const CausalAttentionGrad<BF16>& op);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_CUDNN_H_
