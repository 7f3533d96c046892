#include "model/kernels/attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/cuda_stub.h"
#include "model/kernels/embedding.h"
#include "model/kernels/gemm.h"
#include "model/kernels/norm.h"
#include "model/kernels/optimizer.h"
#include "model/kernels/rope.h"

namespace gradsync::model::kernels::cuda {

GRADSYNC_STUB(CausalAttention, Device&, const AttentionShape&, const T*, const T*, const T*, T*, T*);
GRADSYNC_STUB(CausalAttentionGrad, Device&, const AttentionShape&, const T*, const T*, const T*, const T*,
              const T*, const T*, Target<T>, Target<T>, Target<T>);
GRADSYNC_STUB(CrossEntropy, const Device&, const T*, const int32_t*, int64_t, int64_t, T*, T*);
GRADSYNC_STUB(CrossEntropyGrad, const Device&, const T*, const int32_t*, const T*, const T*, int64_t, int64_t,
              T*, bool);
GRADSYNC_STUB(Embedding, const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t, T*);
GRADSYNC_STUB(EmbeddingGrad, const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t, T*, bool);
GRADSYNC_STUB(Gemm, Device&, int64_t, int64_t, int64_t, Operand<T>, Operand<T>, T*, int64_t, bool);
GRADSYNC_STUB(RmsNorm, const Device&, const T*, const T*, int64_t, int64_t, double, T*, T*);
GRADSYNC_STUB(RmsNormWeightGrad, const Device&, const T*, const T*, const T*, int64_t, int64_t, T*, bool);
GRADSYNC_STUB(RmsNormInputGrad, const Device&, const T*, const T*, const T*, const T*, int64_t, int64_t, T*,
              bool);
GRADSYNC_STUB(Rope, Device&, const RopeShape&, double, bool, const T*, T*, bool);
GRADSYNC_STUB(Sgd, const Device&, std::span<const SgdTensor<T>>, double, double);
GRADSYNC_STUB(AdamW, const Device&, std::span<const AdamWTensor<T>>, const AdamWFactors&);

}  // namespace gradsync::model::kernels::cuda
