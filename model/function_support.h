#ifndef GRADSYNC_MODEL_FUNCTION_SUPPORT_H_
#define GRADSYNC_MODEL_FUNCTION_SUPPORT_H_

#include <array>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <utility>

#include "model/autograd.h"
#include "model/error.h"
#include "model/kernels/target.h"
#include "model/tensor.h"

// What the sources of differentiable operations share: checks of their inputs, and calls of their kernels.
namespace gradsync::model {

// Calls kernel.operator()<T>() with the C++ type of the dtype of `like`: f32, f64 or bf16.
template <class Kernel>
void Run(std::string_view op, const Tensor& like, const Kernel& kernel) {
  DispatchAnyFloat(like.dtype(), op, kernel);
}

// Of a kernel's two versions the one for the device.
template <class Kernel>
Kernel* On(const Device& device, Kernel* on_cpu, Kernel* on_cuda) {
  return device.is_cpu() ? on_cpu : on_cuda;
}

// A tensor as an error message shows it. Formatted only when there is an error to show.
struct Describe {
  const Tensor& tensor;
};

inline std::ostream& operator<<(std::ostream& out, const Describe& described) {
  const Tensor& tensor = described.tensor;
  if (!tensor.defined()) return out << "undefined";
  return out << ToString(tensor.shape()) << " " << Name(tensor.dtype()) << " on " << tensor.device()->name();
}

// Two tensors that one kernel reads. `ok` is what the operation wants of their shapes.
inline void RequirePair(bool ok, std::string_view op, std::string_view a_name, const Tensor& a,
                        std::string_view b_name, const Tensor& b, std::string_view expected) {
  Require(ok, op, ": ", a_name, " is ", Describe{a}, ", ", b_name, " is ", Describe{b}, ", expected ",
          expected);
}

inline bool SameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device();
}

// Whether b is what belongs to parameters or to a loss where activations are like a: of a's dtype, or f32
// beside bf16.
inline bool WideOfSameKind(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && b.dtype() == WideDType(a.dtype()) && a.device() == b.device();
}

inline bool SameShape(const Tensor& a, const Tensor& b) { return SameKind(a, b) && a.shape() == b.shape(); }

// (..., n) -> the number of rows of n elements.
inline int64_t Rows(const Tensor& x) { return Numel(Shape(x.shape().begin(), x.shape().end() - 1)); }

inline Tensor EmptyLike(const Tensor& x) { return Tensor::Empty(x.device(), x.shape(), x.dtype()); }

inline Tensor EmptyWithLast(const Tensor& x, int64_t last) {
  Shape shape = x.shape();
  shape.back() = last;
  return Tensor::Empty(x.device(), std::move(shape), x.dtype());
}

// The gradients of the first N inputs, from one kernel. An undefined tensor stands for one not wanted.
template <size_t N>
using Places = std::array<OpGradient::Place, N>;

// Calls compute(places) for the inputs that need a gradient: for all at once, or, if two inputs may be the
// same variable (`shared`), for one at a time, as the second adds to what the first has written.
template <size_t N, class Compute>
void ContributeTogether(OpGradient& op, bool shared, const Compute& compute) {
  if (shared) {
    for (size_t i = 0; i < N; ++i) {
      op.Contribute(static_cast<int>(i), [&](const Tensor& grad, bool accumulate) {
        Places<N> places;
        places[i] = {.grad = grad, .accumulate = accumulate};
        compute(places);
      });
    }
    return;
  }
  Places<N> places;
  for (size_t i = 0; i < N; ++i) {
    if (op.Needs(static_cast<int>(i))) places[i] = op.Open(static_cast<int>(i));
  }
  compute(places);
  for (size_t i = 0; i < N; ++i) {
    if (op.Needs(static_cast<int>(i))) op.Close(static_cast<int>(i));
  }
}

template <class T>
kernels::Target<T> TargetOf(const OpGradient::Place& place) {
  if (!place.grad.defined()) return {};
  return {.data = place.grad.data<T>(), .accumulate = place.accumulate};
}

}  // namespace gradsync::model

#endif  // GRADSYNC_MODEL_FUNCTION_SUPPORT_H_
