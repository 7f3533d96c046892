#include "model/kernels/batch_norm.h"
#include "model/kernels/conv.h"
#include "model/kernels/cuda_stub.h"
#include "model/kernels/pool.h"
#include "model/kernels/regression.h"

namespace gradsync::model::kernels::cuda {

GRADSYNC_STUB_ANY_FLOAT(BatchNorm, Device&, const ActivationShape&, const BatchNormInputs<T>&, double, T*,
                        Wide<T>*, Wide<T>*, Wide<T>*);
GRADSYNC_STUB(MoveAverage, const Device&, const T*, int64_t, double, T*);
GRADSYNC_STUB_ANY_FLOAT(BatchNormGrad, Device&, const ActivationShape&, const BatchNormInputs<T>&,
                        const Wide<T>*, const Wide<T>*, const T*, const T*, const BatchNormGrads<T>&);
GRADSYNC_STUB_ANY_FLOAT(Conv2d, Device&, const ConvShape&, const T*, const T*, T*);
GRADSYNC_STUB_ANY_FLOAT(Conv2dWeightGrad, Device&, const ConvShape&, const T*, const T*, Wide<T>*, bool);
GRADSYNC_STUB_ANY_FLOAT(Conv2dInputGrad, Device&, const ConvShape&, const T*, const T*, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(MaxPool, const Device&, const PoolShape&, const T*, T*, uint8_t*);
GRADSYNC_STUB_ANY_FLOAT(MaxPoolGrad, const Device&, const PoolShape&, const uint8_t*, const T*, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(AveragePool, const Device&, const ActivationShape&, const T*, T*);
GRADSYNC_STUB_ANY_FLOAT(AveragePoolGrad, const Device&, const ActivationShape&, const T*, T*, bool);
GRADSYNC_STUB_ANY_FLOAT(AddBias, const Device&, const T*, const Wide<T>*, int64_t, int64_t, T*);
GRADSYNC_STUB_ANY_FLOAT(BiasGrad, const Device&, const T*, int64_t, int64_t, Wide<T>*, bool);
GRADSYNC_STUB_ANY_FLOAT(SquaredError, const Device&, const T*, const Wide<T>*, int64_t, Wide<T>*);
GRADSYNC_STUB_ANY_FLOAT(SquaredErrorGrad, const Device&, const T*, const Wide<T>*, const Wide<T>*, int64_t,
                        T*, bool);

void AddOne(const Device&, int64_t*) {
  throw InvalidInput("AddOne: this program was built without the part of CUDA that this needs");
}

}  // namespace gradsync::model::kernels::cuda
