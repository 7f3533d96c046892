#include "model/tensor/tensor_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/tensor/elementwise.h"

namespace gradsync::model {

void AddTo(const Tensor& source, const Tensor& target) {
  Require(source.shape() == target.shape() && source.dtype() == target.dtype() &&
              source.device()->type() == target.device()->type(),
          "add: source is ", source.shape(), " ", Name(source.dtype()), " on ", source.device()->name(),
          ", target ", target.shape(), " ", Name(target.dtype()), " on ", target.device()->name());
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
  if (to.accumulate) {
    AddTo(source, to.data);
  } else {
    to.data.CopyFrom(source);
  }
}

void Scale(const Tensor& tensor, double factor) {
  DispatchAnyFloat(tensor.dtype(), "scale", [&]<class T>() {
    T* const y = tensor.data<T>();
    kernels::Run("scale", *tensor.device(),
                 kernels::Scaled<T>{.x = y, .factor = factor, .n = tensor.numel(), .y = {.data = y}});
  });
  tensor.CountWrite();
}

double SquaredNorm(std::span<const Tensor> tensors) {
  int64_t num_pieces = 0;
  for (const Tensor& tensor : tensors) num_pieces += kernels::NumPieces(tensor.numel());
  if (num_pieces == 0) return 0;
  const DevicePtr device = tensors.front().device();
  const Tensor sums = Tensor::Empty(device, {num_pieces}, DType::kF64);
  double* at = sums.data<double>();
  for (const Tensor& tensor : tensors) {
    DispatchAnyFloat(tensor.dtype(), "squared norm", [&]<class T>() {
      kernels::Run("squared norm", *device,
                   kernels::SquaredSums<T>{.x = tensor.data<T>(), .n = tensor.numel(), .sums = at});
    });
    at += kernels::NumPieces(tensor.numel());
  }
  const std::vector<double> of_pieces = sums.ToVector<double>();
  return std::accumulate(of_pieces.begin(), of_pieces.end(), 0.0);
}

double SquaredNorm(const Tensor& tensor) { return SquaredNorm({&tensor, 1}); }

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
          "cast: source is ", source.shape(), " ", Name(source.dtype()), " on ", source.device()->name(),
          ", target ", target.shape(), " ", Name(target.dtype()), " on ", target.device()->name(),
          ", expected f32 and bf16 of one shape and device");
  const auto run = [&]<class From, class To>(From* x, To* y) {
    kernels::Run("cast", *target.device(),
                 kernels::Cast<From, To>{.x = x, .n = source.numel(), .y = {.data = y}});
  };
  if (narrows) {
    run(source.data<float>(), target.data<BF16>());
  } else {
    run(source.data<BF16>(), target.data<float>());
  }
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
