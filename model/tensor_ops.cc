#include "model/tensor_ops.h"

#include <algorithm>

#include "model/kernels/elementwise.h"
#include "model/kernels/parallel.h"
#include "model/kernels/vector.h"

namespace gradsync::model {

void AddTo(const Tensor& source, const Tensor& target) {
  Require(source.shape() == target.shape() && source.dtype() == target.dtype() &&
              source.device()->type() == target.device()->type(),
          "add: source is ", ToString(source.shape()), " ", Name(source.dtype()), " on ",
          source.device()->name(), ", target ", ToString(target.shape()), " ", Name(target.dtype()), " on ",
          target.device()->name());
  DispatchAnyFloat(target.dtype(), "add", [&]<class T>() {
    const T* x = source.data<T>();
    T* y = target.data<T>();
    if (!target.device()->is_cpu()) {
      return kernels::cuda::Scaled(*target.device(), x, 1.0, target.numel(), y, /*accumulate=*/true);
    }
    kernels::cpu::ParallelFor(*target.device(), target.numel(), [&](int64_t begin, int64_t end) {
      kernels::cpu::Add(x + begin, y + begin, end - begin);
    });
  });
}

void Scale(const Tensor& tensor, double factor) {
  DispatchAnyFloat(tensor.dtype(), "scale", [&]<class T>() {
    T* y = tensor.data<T>();
    if (!tensor.device()->is_cpu()) {
      return kernels::cuda::Scaled(*tensor.device(), y, factor, tensor.numel(), y, /*accumulate=*/false);
    }
    kernels::cpu::ParallelFor(*tensor.device(), tensor.numel(), [&](int64_t begin, int64_t end) {
      kernels::cpu::Scale(y + begin, factor, end - begin);
    });
  });
}

void Fill(const Tensor& tensor, double value) {
  DispatchAnyFloat(tensor.dtype(), "fill", [&]<class T>() {
    T* y = tensor.data<T>();
    if (!tensor.device()->is_cpu()) {
      return kernels::cuda::Fill(*tensor.device(), value, tensor.numel(), y);
    }
    kernels::cpu::ParallelFor(*tensor.device(), tensor.numel(), [&](int64_t begin, int64_t end) {
      std::fill(y + begin, y + end, static_cast<T>(static_cast<Wide<T>>(value)));
    });
  });
}

void Round(const Tensor& source, const Tensor& target) {
  Require(source.dtype() == DType::kF32 && target.dtype() == DType::kBF16 &&
              source.shape() == target.shape() && source.device() == target.device(),
          "round: source is ", ToString(source.shape()), " ", Name(source.dtype()), " on ",
          source.device()->name(), ", target ", ToString(target.shape()), " ", Name(target.dtype()), " on ",
          target.device()->name(), ", expected f32 and bf16 of one shape and device");
  const Device& device = *target.device();
  const auto round = device.is_cpu() ? kernels::cpu::Round : kernels::cuda::Round;
  round(device, source.data<float>(), source.numel(), target.data<BF16>());
}

}  // namespace gradsync::model
