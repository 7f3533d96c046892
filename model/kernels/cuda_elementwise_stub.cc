#include "model/kernels/cuda_stub.h"
#include "model/kernels/elementwise.h"

namespace gradsync::model::kernels::cuda {

GRADSYNC_STUB(Sum, const Device&, const T*, const T*, int64_t, T*);
GRADSYNC_STUB(Scaled, const Device&, const T*, double, int64_t, T*, bool);
GRADSYNC_STUB(Fill, const Device&, double, int64_t, T*);
GRADSYNC_STUB(SwiGlu, const Device&, const T*, const T*, int64_t, T*);
GRADSYNC_STUB(SwiGluGrad, const Device&, const T*, const T*, const T*, int64_t, Target<T>, Target<T>);

}  // namespace gradsync::model::kernels::cuda
