// For a build without cuDNN's frontend.

#include "model/kernels/attention_cudnn.h"

namespace gradsync::model::kernels {

bool ByCudnn(Device&, const CausalAttention<BF16>&) { return false; }
bool ByCudnn(Device&, const CausalAttentionGrad<BF16>&) { return false; }

}  // namespace gradsync::model::kernels
