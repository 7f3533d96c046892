#include <algorithm>

#include "model/kernels/optimizer.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"

namespace gradsync::model::kernels {
namespace {

// Updates the elements [begin, end). Rule and tensor are copies, because the compiler must assume that
// writing an element may change objects of the caller.
template <bool kScaled, class Rule, class T>
void UpdatePart(const Rule rule, const UpdatedTensor<T> tensor, T grad_scale, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) UpdateElement<kScaled>(rule, tensor, grad_scale, i);
}

}  // namespace

template <template <class> class Rule, class T>
void Update<Rule, T>::OnCpu(Device& device) const {
  // A copy is made while the values are in the first-level cache.
  constexpr int64_t kPart = 1024;
  const auto update = [&](const UpdatedTensor<T>& tensor, int64_t begin, int64_t end) {
    if (grad_scale == 1) return UpdatePart<false>(rule, tensor, grad_scale, begin, end);
    UpdatePart<true>(rule, tensor, grad_scale, begin, end);
  };
  for (const UpdatedTensor<T>& tensor : tensors) {
    ParallelFor(device, tensor.n, [&](int64_t begin, int64_t end) {
      if (tensor.copy == nullptr) return update(tensor, begin, end);
      for (int64_t at = begin; at < end; at += kPart) {
        const int64_t length = std::min(kPart, end - at);
        update(tensor, at, at + length);
        CastSpan(tensor.value + at, length, tensor.copy + at);
      }
    });
  }
}
GRADSYNC_INSTANTIATE_UPDATE(OnCpu);

}  // namespace gradsync::model::kernels
