#include "model/kernels/attention.h"
#include "model/kernels/cross_entropy.h"
#include "model/kernels/cuda_stub.h"
#include "model/kernels/embedding.h"
#include "model/kernels/gemm.h"
#include "model/kernels/norm.h"
#include "model/kernels/optimizer.h"
#include "model/kernels/rope.h"

namespace gradsync::model::kernels::cuda {

GRADSYNC_STUB_ANY_FLOAT(CausalAttention, Device&, const AttentionShape&, const T*, const T*, const T*, T*,
                        Wide<T>*);
GRADSYNC_STUB_ANY_FLOAT(CausalAttentionGrad, Device&, const AttentionShape&, const T*, const T*, const T*,
                        const T*, const Wide<T>*, const T*, Target<T>, Target<T>, Target<T>);
GRADSYNC_STUB_ANY_FLOAT(CrossEntropy, const Device&, const T*, const int32_t*, int64_t, int64_t, Wide<T>*,
                        Wide<T>*);
GRADSYNC_STUB_ANY_FLOAT(CrossEntropyGrad, const Device&, const T*, const int32_t*, const Wide<T>*,
                        const Wide<T>*, int64_t, int64_t, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(Embedding, const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t, T*);
GRADSYNC_STUB_ANY_FLOAT(EmbeddingGrad, const Device&, const int32_t*, const T*, int64_t, int64_t, int64_t,
                        Wide<T>*, bool);
GRADSYNC_STUB_ANY_FLOAT(GemmPlus, Device&, int64_t, int64_t, int64_t, Operand<T>, Operand<T>, const T*, T*,
                        int64_t);
GRADSYNC_STUB_ANY_FLOAT(RmsNorm, const Device&, const T*, const Wide<T>*, int64_t, int64_t, double, T*,
                        Wide<T>*);
GRADSYNC_STUB_ANY_FLOAT(RmsNormWeightGrad, const Device&, const T*, const Wide<T>*, const T*, int64_t,
                        int64_t, Wide<T>*, bool);
GRADSYNC_STUB_ANY_FLOAT(RmsNormInputGrad, const Device&, const T*, const Wide<T>*, const Wide<T>*, const T*,
                        int64_t, int64_t, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(Rope, Device&, const RopeShape&, double, bool, const T*, T*, bool);
GRADSYNC_STUB(Sgd, const Device&, std::span<const SgdTensor<T>>, double, double);
GRADSYNC_STUB(AdamW, const Device&, std::span<const AdamWTensor<T>>, const AdamWFactors&);

template <class T, class C>
void Gemm(Device&, int64_t, int64_t, int64_t, Operand<T>, Operand<T>, C*, int64_t, bool) {
  throw InvalidInput("Gemm: this program was built without the part of CUDA that this needs");
}
template decltype(Gemm<float, float>) Gemm<float, float>;
template decltype(Gemm<double, double>) Gemm<double, double>;
template decltype(Gemm<BF16, BF16>) Gemm<BF16, BF16>;
template decltype(Gemm<BF16, float>) Gemm<BF16, float>;

}  // namespace gradsync::model::kernels::cuda
