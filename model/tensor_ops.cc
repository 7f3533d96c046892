#include "model/tensor_ops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/kernels/elementwise.h"

namespace gradsync::model {

void AddTo(const Tensor& source, const Tensor& target) {
  Require(source.shape() == target.shape() && source.dtype() == target.dtype() &&
              source.device()->type() == target.device()->type(),
          "add: source is ", ToString(source.shape()), " ", Name(source.dtype()), " on ",
          source.device()->name(), ", target ", ToString(target.shape()), " ", Name(target.dtype()), " on ",
          target.device()->name());
  DispatchAnyFloat(target.dtype(), "add", [&]<class T>() {
    kernels::Run("add", *target.device(),
                 kernels::Scaled<T>{.x = source.data<T>(),
                                    .factor = 1,
                                    .n = target.numel(),
                                    .y = {.data = target.data<T>(), .accumulate = true}});
  });
  target.CountWrite();
}

void Store(const Tensor& source, const Destination<Tensor>& to) {
  to.accumulate ? AddTo(source, to.data) : to.data.CopyFrom(source);
}

void Scale(const Tensor& tensor, double factor) {
  DispatchAnyFloat(tensor.dtype(), "scale", [&]<class T>() {
    T* const y = tensor.data<T>();
    kernels::Run("scale", *tensor.device(),
                 kernels::Scaled<T>{.x = y, .factor = factor, .n = tensor.numel(), .y = {.data = y}});
  });
  tensor.CountWrite();
}

double SquaredNorm(const Tensor& tensor) {
  return DispatchAnyFloat(tensor.dtype(), "squared norm", [&]<class T>() {
    const bool is_here = tensor.device()->is_cpu();
    const std::vector<T> copy = is_here ? std::vector<T>() : tensor.ToVector<T>();
    const T* const values = is_here ? tensor.data<T>() : copy.data();
    const int64_t n = tensor.numel();
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(static_cast<Wide<T>>(values[i]));
      sum += value * value;
    }
    return sum;
  });
}

void Fill(const Tensor& tensor, double value) {
  DispatchAnyFloat(tensor.dtype(), "fill", [&]<class T>() {
    kernels::Run("fill", *tensor.device(),
                 kernels::Fill<T>{.value = value, .n = tensor.numel(), .y = tensor.data<T>()});
  });
  tensor.CountWrite();
}

void Cast(const Tensor& source, const Tensor& target) {
  const bool narrows = source.dtype() == DType::kF32 && target.dtype() == DType::kBF16;
  const bool widens = source.dtype() == DType::kBF16 && target.dtype() == DType::kF32;
  Require((narrows || widens) && source.shape() == target.shape() && source.device() == target.device(),
          "cast: source is ", ToString(source.shape()), " ", Name(source.dtype()), " on ",
          source.device()->name(), ", target ", ToString(target.shape()), " ", Name(target.dtype()), " on ",
          target.device()->name(), ", expected f32 and bf16 of one shape and device");
  const auto run = [&]<class From, class To>(From* x, To* y) {
    kernels::Run("cast", *target.device(),
                 kernels::Cast<From, To>{.x = x, .n = source.numel(), .y = {.data = y}});
  };
  narrows ? run(source.data<float>(), target.data<BF16>()) : run(source.data<BF16>(), target.data<float>());
}

std::optional<int64_t> FindNotFinite(const Tensor& tensor) {
  return DispatchAnyFloat(tensor.dtype(), "find not finite", [&]<class T>() -> std::optional<int64_t> {
    const std::vector<T> values = tensor.ToVector<T>();
    const auto found =
        std::ranges::find_if_not(values, [](T value) { return std::isfinite(static_cast<Wide<T>>(value)); });
    if (found == values.end()) return std::nullopt;
    return found - values.begin();
  });
}

}  // namespace gradsync::model
