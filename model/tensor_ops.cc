#include "model/tensor_ops.h"

#include "model/kernels/parallel.h"
#include "model/kernels/vector.h"

namespace gradsync::model {

void AddTo(const Tensor& source, const Tensor& target) {
  Require(source.shape() == target.shape() && source.dtype() == target.dtype(), "add: source is ",
          ToString(source.shape()), " ", Name(source.dtype()), ", target ", ToString(target.shape()), " ",
          Name(target.dtype()));
  DispatchFloat(target.dtype(), "add", [&]<class T>() {
    const T* x = source.data<T>();
    T* y = target.data<T>();
    kernels::cpu::ParallelFor(*target.device(), target.numel(), [&](int64_t begin, int64_t end) {
      kernels::cpu::Add(x + begin, y + begin, end - begin);
    });
  });
}

void Scale(const Tensor& tensor, double factor) {
  DispatchFloat(tensor.dtype(), "scale", [&]<class T>() {
    T* y = tensor.data<T>();
    kernels::cpu::ParallelFor(*tensor.device(), tensor.numel(), [&](int64_t begin, int64_t end) {
      kernels::cpu::Scale(y + begin, factor, end - begin);
    });
  });
}

}  // namespace gradsync::model
