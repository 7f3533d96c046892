#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "model/autograd.h"
#include "model/base/error.h"
#include "model/tensor/destination.h"
#include "model/tensor/kernel.h"
#include "model/tensor/tensor.h"

// Defines functions with which differentiable operations run their kernels and check their inputs.
namespace gradsync::model {

// An object that converts a tensor to a pointer to the tensor's elements, for a kernel's argument. If the
// tensor is undefined, the pointer is null. Throws InvalidInput if the pointer's type does not match the
// tensor's dtype.
class Data {
 public:
  explicit Data(const Tensor& tensor) : tensor_(tensor) {}

  template <class T>
  operator T*() const {  // NOLINT(google-explicit-constructor)
    return tensor_.defined() ? tensor_.data<std::remove_const_t<T>>() : nullptr;
  }

 private:
  const Tensor& tensor_;
};

// Runs a kernel on the device of the tensor `like`. The caller's template lambda `make` returns the kernel:
// Run calls make.operator()<T>(). T is the C++ type for the dtype of `like`: float, double or BF16.
template <class Make>
void Run(std::string_view op, const Tensor& like, const Make& make) {
  DispatchAnyFloat(like.dtype(), op,
                   [&]<class T>() { kernels::Run(op, *like.device(), make.template operator()<T>()); });
}

// The tensor for the gradient of an operation's input, and a flag that says whether a kernel adds to the
// tensor or overwrites it. A Grad converts to Destination<T*>, the type that kernels take, with a pointer to
// the tensor's elements and the same flag. A Grad whose tensor is undefined converts to a null pointer.
using Grad = Destination<Tensor>;

// If input i of `op` needs a gradient, runs the kernel that the caller's template lambda `make` returns:
// make.operator()<T>(grad). The kernel must overwrite grad.data with the gradient, or add the gradient to
// grad.data if grad.accumulate is true. T is the C++ type for the dtype of the tensor `like`. If `rows` is
// defined, it is an i32 tensor of row numbers, and the gradient that the kernel computes must be zero in all
// other rows (Parameter::touched_rows).
template <class Make>
void Contribute(OpGradient& op, int i, const Tensor& like, const Make& make, const Tensor& rows = {}) {
  const auto write = [&](const Grad& grad) {
    Run(op.name(), like, [&]<class T>() { return make.template operator()<T>(grad); });
  };
  op.Contribute(i, write, rows);
}

// Runs the kernel that computes the gradients of the inputs 0 to N - 1 of the operation `op`. The caller's
// template lambda `make` returns the kernel: make.operator()<T>(grad_0, ..., grad_(N-1)). T is the C++ type
// for the dtype of `like`. The kernel must overwrite grad_i.data with input i's gradient, or add the gradient
// to grad_i.data if grad_i.accumulate is true. If grad_i.data is undefined, the kernel must skip input i. If
// several inputs may be the same variable, `shared` must be true: the kernel then runs once for each input
// that needs a gradient, and computes only this gradient. If `shared` is false, the kernel runs once, for all
// inputs that need a gradient.
template <size_t N, class Make>
void ContributeTogether(OpGradient& op, bool shared, const Tensor& like, const Make& make) {
  const auto run = [&](const std::array<Grad, N>& grads) {
    Run(op.name(), like, [&]<class T>() {
      return std::apply([&](const auto&... grad) { return make.template operator()<T>(grad...); }, grads);
    });
  };
  std::array<Grad, N> grads;
  if (shared) {
    for (size_t i = 0; i < N; ++i) {
      op.Contribute(static_cast<int>(i), [&](const Grad& grad) {
        grads = {};
        grads[i] = grad;
        run(grads);
      });
    }
    return;
  }
  for (size_t i = 0; i < N; ++i) {
    if (op.Needs(static_cast<int>(i))) grads[i] = op.Open(static_cast<int>(i));
  }
  run(grads);
  for (size_t i = 0; i < N; ++i) {
    if (op.Needs(static_cast<int>(i))) op.Close(static_cast<int>(i));
  }
}

// Describe{t}.ToString() returns the shape, dtype and device of the tensor t as text for an error message, or
// "undefined" for an undefined tensor.
struct Describe {
  const Tensor& tensor;

  std::string ToString() const {
    if (!tensor.defined()) return "undefined";
    return Join(tensor.shape(), " ", Name(tensor.dtype()), " on ", tensor.device()->name());
  }
};

// If `ok` is false, throws InvalidInput. The message describes the tensors a and b, and says what the
// operation `op` expects.
inline void RequirePair(bool ok, std::string_view op, std::string_view a_name, const Tensor& a,
                        std::string_view b_name, const Tensor& b, std::string_view expected) {
  Require(ok, op, ": ", a_name, " is ", Describe{a}, ", ", b_name, " is ", Describe{b}, ", expected ",
          expected);
}

inline bool SameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device();
}

// Returns whether a and b are defined, and b is on a's device and has the right dtype: f32 if a is bf16, else
// the dtype of a. RmsNorm, for example, requires this of its input a and its weight b.
inline bool WideOfSameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && b.dtype() == WideDType(a.dtype()) && a.device() == b.device();
}

inline void RequireSameShape(std::string_view op, std::string_view a_name, const Tensor& a,
                             std::string_view b_name, const Tensor& b) {
  RequirePair(SameKind(a, b) && a.shape() == b.shape(), op, a_name, a, b_name, b,
              "one shape, dtype and device");
}

// Returns the product of all dimensions of x except the last; 1 if x has one dimension. x must have at least
// one dimension.
inline int64_t Rows(const Tensor& x) { return Numel(Shape(x.shape().begin(), x.shape().end() - 1)); }

inline Tensor EmptyLike(const Tensor& x) { return Tensor::Empty(x.device(), x.shape(), x.dtype()); }

inline Tensor EmptyWithLast(const Tensor& x, int64_t last) {
  Shape shape = x.shape();
  shape.back() = last;
  return Tensor::Empty(x.device(), std::move(shape), x.dtype());
}

}  // namespace gradsync::model
