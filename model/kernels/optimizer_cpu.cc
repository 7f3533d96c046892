#include <algorithm>

#include "model/kernels/eigen.h"
#include "model/kernels/optimizer.h"
#include "model/kernels/parallel.h"

namespace gradsync::model::kernels {
namespace {

// Elements [begin, end). Rule and tensor are this function's own: the compiler must think that writing an
// element may change those of a caller.
template <class Rule, class T>
void UpdatePart(const Rule rule, const UpdatedTensor<T> tensor, int64_t begin, int64_t end) {
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) UpdateElement(rule, tensor, i);
}

}  // namespace

template <template <class> class Rule, class T>
void Update<Rule, T>::OnCpu(Device& device) const {
  // A copy is made while the values are in the first-level cache.
  constexpr int64_t kPart = 1024;
  for (const UpdatedTensor<T>& tensor : tensors) {
    ParallelFor(device, tensor.n, [&](int64_t begin, int64_t end) {
      if (tensor.copy == nullptr) return UpdatePart(rule, tensor, begin, end);
      for (int64_t at = begin; at < end; at += kPart) {
        const int64_t length = std::min(kPart, end - at);
        UpdatePart(rule, tensor, at, at + length);
        CastSpan(tensor.value + at, length, tensor.copy + at);
      }
    });
  }
}
GRADSYNC_INSTANTIATE_UPDATE(OnCpu);

}  // namespace gradsync::model::kernels
