#ifndef GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_
#define GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_

#include <cstdint>
#include <span>

#include "model/kernels/kernel.h"

// Updates of n parameters in one pass over memory, which is what bounds them. Arrays do not overlap.
// T is float or double. What matrix products read of a value in their own type, its copy, is written in the
// same pass.
namespace gradsync::model::kernels {

// The factors of one step of AdamW, the same for all parameters.
struct AdamWFactors {
  double decay;      // of the value: 1 - learning_rate * weight_decay
  double beta1;      // of the mean
  double beta2;      // of the mean square
  double step_size;  // learning_rate / (1 - beta1^step)
  double scale;      // of the root of the mean square: 1 / sqrt(1 - beta2^step)
  double eps;
};

// A tensor of n elements. Without momentum velocity is null, without a copy in bf16 copy is.
template <class T>
struct SgdTensor {
  const T* grad;
  T* velocity;
  T* value;
  BF16* copy;
  int64_t n;
};

// The same for AdamW.
template <class T>
struct AdamWTensor {
  const T* grad;
  T* mean;
  T* square;
  T* value;
  BF16* copy;
  int64_t n;
};

// velocity = momentum * velocity + grad; value -= learning_rate * velocity. 20 bytes per element in f32.
// Without momentum value -= learning_rate * grad, 12 bytes. A copy takes 2 more.
template <class T>
struct Sgd {
  std::span<const SgdTensor<T>> tensors;
  double learning_rate, momentum;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// mean = beta1 * mean + (1 - beta1) * grad; square = beta2 * square + (1 - beta2) * grad^2;
// value = decay * value - step_size * mean / (scale * sqrt(square) + eps). 28 bytes per element in f32. A
// copy takes 2 more.
template <class T>
struct AdamW {
  std::span<const AdamWTensor<T>> tensors;
  AdamWFactors factors;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_
