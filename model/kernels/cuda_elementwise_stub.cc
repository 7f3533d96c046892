#include "model/kernels/cuda_stub.h"
#include "model/kernels/elementwise.h"

namespace gradsync::model::kernels::cuda {

GRADSYNC_STUB_ANY_FLOAT(Sum, const Device&, const T*, const T*, int64_t, T*);
GRADSYNC_STUB_ANY_FLOAT(Scaled, const Device&, const T*, double, int64_t, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(Fill, const Device&, double, int64_t, T*);
GRADSYNC_STUB_ANY_FLOAT(SwiGlu, const Device&, const T*, const T*, int64_t, T*);
GRADSYNC_STUB_ANY_FLOAT(SwiGluGrad, const Device&, const T*, const T*, const T*, int64_t, Target<T>,
                        Target<T>);

void Round(const Device&, const float*, int64_t, BF16*) {
  throw InvalidInput("Round: this program was built without the part of CUDA that this needs");
}

void Widened(const Device&, const BF16*, int64_t, float*, bool) {
  throw InvalidInput("Widened: this program was built without the part of CUDA that this needs");
}

}  // namespace gradsync::model::kernels::cuda
