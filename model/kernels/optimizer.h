#ifndef GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_
#define GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "model/kernels/kernel.h"

// Updates of parameters in one pass over memory, which is what bounds them. T is float or double. Arrays do
// not overlap.
namespace gradsync::model::kernels {

// Rules: what becomes of an element of a parameter, and of its states. Both devices compute them, so they are
// constexpr, which nvcc takes for device functions.

// 12 bytes per element in f32.
template <class T>
struct Sgd {
  T learning_rate;

  constexpr T operator()(T value, T grad) const { return value - learning_rate * grad; }
};

// 28 bytes.
template <class T>
struct AdamW {
  T decay;         // of the value: 1 - learning_rate * weight_decay
  T beta1, rest1;  // of the mean, and 1 - beta1
  T beta2, rest2;  // of the mean square
  T step_size;     // learning_rate / (1 - beta1^step)
  T scale;         // of the root of the mean square: 1 / sqrt(1 - beta2^step)
  T eps;

  constexpr T operator()(T value, T grad, T& mean, T& square) const {
    mean = beta1 * mean + rest1 * grad;
    square = beta2 * square + rest2 * grad * grad;
    return decay * value - step_size * mean / (scale * std::sqrt(square) + eps);
  }
};

// A tensor of n elements. What matrix products read of a value in their own type, its copy (null without
// one), is written in the same pass, for 2 bytes more per element.
template <class T>
struct UpdatedTensor {
  const T* grad;
  T* value;
  T* states[2];  // if the rule has any
  BF16* copy;
  int64_t n;
};

// A gradient counts `grad_scale` times: one update then both clips and changes the values.
template <template <class> class Rule, class T>
struct Update {
  std::span<const UpdatedTensor<T>> tensors;
  Rule<T> rule;
  T grad_scale = 1;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Updates element i, but for its copy. All is read before anything is written, as no compiler knows that
// arrays do not overlap. Returns the new value. Without a scale there is no product, which compilers could
// fuse with a sum of the rule, and round another way.
template <bool kScaled, class Rule, class T>
constexpr T UpdateElement(const Rule& rule, const UpdatedTensor<T>& tensor, T grad_scale, int64_t i) {
  T value = tensor.value[i];
  const T grad = kScaled ? grad_scale * tensor.grad[i] : tensor.grad[i];
  if constexpr (requires(T x) { rule(x, x); }) {
    value = rule(value, grad);
  } else {
    T first = tensor.states[0][i], second = tensor.states[1][i];
    value = rule(value, grad, first, second);
    tensor.states[0][i] = first;
    tensor.states[1][i] = second;
  }
  return tensor.value[i] = value;
}

// Stands after a body, OnCpu or OnCuda, and compiles it for every rule.
#define GRADSYNC_INSTANTIATE_UPDATE(Body)                  \
  template void Update<Sgd, float>::Body(Device&) const;   \
  template void Update<Sgd, double>::Body(Device&) const;  \
  template void Update<AdamW, float>::Body(Device&) const; \
  template void Update<AdamW, double>::Body(Device&) const

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_OPTIMIZER_H_
