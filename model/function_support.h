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

// Shared code of differentiable operations: calls of their kernels, and checks of their inputs.
namespace gradsync::model {

// Converts a tensor to a pointer to its elements, of any type, for a kernel's arguments. The pointer is null
// for an undefined tensor. Tensor::data throws InvalidInput if the type does not match the dtype.
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

// Runs the kernel that make.operator()<T>() returns, on the device of `like`. T is the C++ type of the dtype
// of `like`: f32, f64 or bf16.
template <class Make>
void Run(std::string_view op, const Tensor& like, const Make& make) {
  DispatchAnyFloat(like.dtype(), op,
                   [&]<class T>() { kernels::Run(op, *like.device(), make.template operator()<T>()); });
}

// The destination of an input's gradient. A Grad initialises a Destination<T*> in a kernel's arguments.
using Grad = Destination<Tensor>;

// Computes the gradient of input i, if it is needed, with the kernel that make.operator()<T>(grad) returns.
// The kernel writes only `rows`, if they are given.
template <class Make>
void Contribute(OpGradient& op, int i, const Tensor& like, const Make& make, const Tensor& rows = {}) {
  const auto write = [&](const Grad& grad) {
    Run(op.name(), like, [&]<class T>() { return make.template operator()<T>(grad); });
  };
  op.Contribute(i, write, rows);
}

// Computes the gradients of the first N inputs that need one, with a single kernel, which
// make.operator()<T>(grad, ...) returns. Computes all gradients together, or, if two inputs may be one
// variable (`shared`), one at a time, because the second gradient is added to the first.
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

// A tensor in an error message. The text is made only if there is an error.
struct Describe {
  const Tensor& tensor;

  std::string ToString() const {
    if (!tensor.defined()) return "undefined";
    return Join(tensor.shape(), " ", Name(tensor.dtype()), " on ", tensor.device()->name());
  }
};

// Checks two tensors of one kernel. `ok` is true if their shapes are correct for the operation.
inline void RequirePair(bool ok, std::string_view op, std::string_view a_name, const Tensor& a,
                        std::string_view b_name, const Tensor& b, std::string_view expected) {
  Require(ok, op, ": ", a_name, " is ", Describe{a}, ", ", b_name, " is ", Describe{b}, ", expected ",
          expected);
}

inline bool SameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device();
}

// Returns whether b has the dtype that parameters or losses have for activations like a: the dtype of a, or
// f32 for bf16.
inline bool WideOfSameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && b.dtype() == WideDType(a.dtype()) && a.device() == b.device();
}

inline void RequireSameShape(std::string_view op, std::string_view a_name, const Tensor& a,
                             std::string_view b_name, const Tensor& b) {
  RequirePair(SameKind(a, b) && a.shape() == b.shape(), op, a_name, a, b_name, b,
              "one shape, dtype and device");
}

// Returns the number of rows of n elements of a tensor of shape (..., n).
inline int64_t Rows(const Tensor& x) { return Numel(Shape(x.shape().begin(), x.shape().end() - 1)); }

inline Tensor EmptyLike(const Tensor& x) { return Tensor::Empty(x.device(), x.shape(), x.dtype()); }

inline Tensor EmptyWithLast(const Tensor& x, int64_t last) {
  Shape shape = x.shape();
  shape.back() = last;
  return Tensor::Empty(x.device(), std::move(shape), x.dtype());
}

}  // namespace gradsync::model
