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

// Common code of the differentiable operations: runs their kernels and checks their inputs.
namespace gradsync::model {

// Converts a tensor to a kernel's pointer argument; null for an undefined tensor. Throws InvalidInput if the
// pointer's type does not match the tensor's dtype.
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

// Runs the kernel that make.operator()<T>() returns, on the device of `like`. T is the C++ type of like's
// dtype: float, double or BF16.
template <class Make>
void Run(std::string_view op, const Tensor& like, const Make& make) {
  DispatchAnyFloat(like.dtype(), op,
                   [&]<class T>() { kernels::Run(op, *like.device(), make.template operator()<T>()); });
}

// The tensor for an input's gradient, and whether to add to it. Converts to the Destination<T*> of a kernel's
// arguments.
using Grad = Destination<Tensor>;

// If the gradient of input i is needed, computes it by the kernel that make.operator()<T>(grad) returns.
// `rows`, if given, has the numbers of the rows (i32) that may be nonzero in this gradient.
template <class Make>
void Contribute(OpGradient& op, int i, const Tensor& like, const Make& make, const Tensor& rows = {}) {
  const auto write = [&](const Grad& grad) {
    Run(op.name(), like, [&]<class T>() { return make.template operator()<T>(grad); });
  };
  op.Contribute(i, write, rows);
}

// Computes the gradients of inputs 0 to N - 1 in one run of the kernel that make.operator()<T>(grad_0, ...,
// grad_(N-1)) returns; grad_i is the destination of input i's gradient. `shared` says that several of these
// inputs may be the same variable: then runs the kernel once for each input that needs a gradient, because
// their gradients are then added up in the same memory.
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

// Prints a tensor's shape, dtype and device in an error message.
struct Describe {
  const Tensor& tensor;

  std::string ToString() const {
    if (!tensor.defined()) return "undefined";
    return Join(tensor.shape(), " ", Name(tensor.dtype()), " on ", tensor.device()->name());
  }
};

// If `ok` is false, throws InvalidInput with a message that describes the tensors a and b, and what the
// operation `op` expects.
inline void RequirePair(bool ok, std::string_view op, std::string_view a_name, const Tensor& a,
                        std::string_view b_name, const Tensor& b, std::string_view expected) {
  Require(ok, op, ": ", a_name, " is ", Describe{a}, ", ", b_name, " is ", Describe{b}, ", expected ",
          expected);
}

inline bool SameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device();
}

// Returns whether b is on a's device, and b's dtype is that of a, or f32 if a is bf16. If a is an activation,
// losses and parameters without a copy in bf16 have this dtype.
inline bool WideOfSameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && b.dtype() == WideDType(a.dtype()) && a.device() == b.device();
}

inline void RequireSameShape(std::string_view op, std::string_view a_name, const Tensor& a,
                             std::string_view b_name, const Tensor& b) {
  RequirePair(SameKind(a, b) && a.shape() == b.shape(), op, a_name, a, b_name, b,
              "one shape, dtype and device");
}

// Returns the product of all dimensions of x except the last.
inline int64_t Rows(const Tensor& x) { return Numel(Shape(x.shape().begin(), x.shape().end() - 1)); }

inline Tensor EmptyLike(const Tensor& x) { return Tensor::Empty(x.device(), x.shape(), x.dtype()); }

inline Tensor EmptyWithLast(const Tensor& x, int64_t last) {
  Shape shape = x.shape();
  shape.back() = last;
  return Tensor::Empty(x.device(), std::move(shape), x.dtype());
}

}  // namespace gradsync::model
