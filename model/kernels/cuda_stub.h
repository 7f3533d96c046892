#ifndef GRADSYNC_MODEL_KERNELS_CUDA_STUB_H_
#define GRADSYNC_MODEL_KERNELS_CUDA_STUB_H_

#include "model/error.h"

// For sources that stand in for kernels in a build without the parts of CUDA that these use. Without the
// toolkit they are never called, as no CudaDevice can be made.
//
// Defines the function template `name` with parameters of the given types, for f32 and f64.
#define GRADSYNC_STUB(name, ...)                                                                   \
  template <class T>                                                                               \
  void name(__VA_ARGS__) {                                                                         \
    throw InvalidInput(#name ": this program was built without the part of CUDA that this needs"); \
  }                                                                                                \
  template decltype(name<float>) name<float>;                                                      \
  template decltype(name<double>) name<double>

// The same for bf16 too.
#define GRADSYNC_STUB_ANY_FLOAT(name, ...) \
  GRADSYNC_STUB(name, __VA_ARGS__);        \
  template decltype(name<BF16>) name<BF16>

#endif  // GRADSYNC_MODEL_KERNELS_CUDA_STUB_H_
