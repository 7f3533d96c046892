#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "model/tensor/kernel.h"

// The kernel Update, for the CPU and for CUDA, applies an optimizer's rule to the elements of tensors and of
// their optimizer states, in one pass over memory. T, the type of these elements, is float or double.
namespace gradsync::model::kernels {

// A rule is a function object that computes the new value of one element of a tensor, and the new values of
// its optimizer states.

// The rule of gradient descent without momentum. For each f32 element, this rule reads 8 bytes of memory and
// writes 4.
template <class T>
struct Sgd {
  T learning_rate;

  constexpr T operator()(T value, T grad) const { return value - learning_rate * grad; }
};

// The rule of the AdamW optimizer. For each f32 element, this rule reads 16 bytes of memory and writes 12.
template <class T>
struct AdamW {
  T decay;         // factor of the value: 1 - learning_rate * weight_decay
  T beta1, rest1;  // factor of the mean; 1 - beta1
  T beta2, rest2;  // factor of the mean square; 1 - beta2
  T step_size;     // learning_rate / (1 - beta1^step)
  T scale;         // factor of the root of the mean square: 1 / sqrt(1 - beta2^step)
  T eps;

  constexpr T operator()(T value, T grad, T& mean, T& square) const {
    mean = beta1 * mean + rest1 * grad;
    square = beta2 * square + rest2 * grad * grad;
    return decay * value - step_size * mean / (scale * std::sqrt(square) + eps);
  }
};

// The rule (function object that is called for each element) of Muon's momentum: an exponential mean of
// gradients, in Nesterov's form. The rule returns, as the new value, an element of the update that Muon then
// orthogonalizes. The rule ignores the element's old value.
template <class T>
struct Nesterov {
  T momentum, rest;  // rest: 1 - momentum

  constexpr T operator()(T /*value*/, T grad, T& mean) const {
    mean = momentum * mean + rest * grad;
    return rest * grad + momentum * mean;
  }
};

// A rule for the sum of two tensors: each element of `value` becomes keep * value + add * grad. Any tensor of
// the value's shape may be `grad`.
template <class T>
struct Blend {
  T keep, add;

  constexpr T operator()(T value, T grad) const { return keep * value + add * grad; }
};

// Pointers to the arrays of one tensor: its gradient, values, optimizer states and bf16 copy, each of n
// elements. The kernel Update overwrites the array `value`, and the states that its rule updates. If `copy`
// is not null, Update also writes the new values to `copy`, rounded to bf16.
template <class T>
struct UpdatedTensor {
  const T* grad;
  T* value;
  T* states[2];  // optimizer states that the rule updates; may be null
  BF16* copy;
  int64_t n;
};

// The kernel Update applies `rule`, such as AdamW, to all elements of `tensors`. The rule gets each gradient
// multiplied by `grad_scale`, such as a factor that clips gradients. Update does not change the gradients in
// memory.
template <template <class> class Rule, class T>
struct Update {
  std::span<const UpdatedTensor<T>> tensors;
  Rule<T> rule;
  T grad_scale = 1;

  void OnCpu(Device& device) const;
  void OnCuda(Device& device) const;
};

// Applies `rule` to element i of `tensor`: writes the element's new value and states, but not the copy in
// bf16, and returns the new value. The function first reads the element's value, gradient and states, and
// then writes. After a write, compiled code would have to read the arrays again, because the compiler must
// assume that they overlap. If kScaled is false, `grad_scale` is ignored. If kScaled is false, the gradient
// is not even multiplied by 1, because a compiler may fuse a product and a sum into one instruction, which
// rounds differently.
template <bool kScaled, class Rule, class T>
constexpr T UpdateElement(const Rule& rule, const UpdatedTensor<T>& tensor, T grad_scale, int64_t i) {
  T value = tensor.value[i];
  const T grad = kScaled ? grad_scale * tensor.grad[i] : tensor.grad[i];
  if constexpr (requires(T x) { rule(x, x); }) {
    value = rule(value, grad);
  } else if constexpr (requires(T x) { rule(x, x, x); }) {
    T state = tensor.states[0][i];
    value = rule(value, grad, state);
    tensor.states[0][i] = state;
  } else {
    T first = tensor.states[0][i], second = tensor.states[1][i];
    value = rule(value, grad, first, second);
    tensor.states[0][i] = first;
    tensor.states[1][i] = second;
  }
  return tensor.value[i] = value;
}

// This macro instantiates Update's member function Body for every update rule (Sgd, AdamW, Nesterov, Blend)
// and for T = float and double. Body is OnCpu or OnCuda, and must be defined above the macro's use.
#define GRADSYNC_INSTANTIATE_UPDATE(Body)                      \
  template void Update<Sgd, float>::Body(Device&) const;       \
  template void Update<Sgd, double>::Body(Device&) const;      \
  template void Update<AdamW, float>::Body(Device&) const;     \
  template void Update<AdamW, double>::Body(Device&) const;    \
  template void Update<Nesterov, float>::Body(Device&) const;  \
  template void Update<Nesterov, double>::Body(Device&) const; \
  template void Update<Blend, float>::Body(Device&) const;     \
  template void Update<Blend, double>::Body(Device&) const

}  // namespace gradsync::model::kernels
