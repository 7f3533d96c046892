#include "ddp/lossy/largest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "model/base/error.h"

namespace gradsync::ddp {

void TakeLargest(const model::Tensor& from, const model::Tensor& scratch, int64_t count, float* values,
                 int32_t* indices) {
  if (count == 0) return;
  if (indices == nullptr) {
    std::copy_n(from.data<float>(), count, values);
    from.Zero();
    return;
  }
  const auto magnitude = [](float x) {
    return std::isnan(x) ? std::numeric_limits<float>::infinity() : std::abs(x);
  };
  auto* const elements = from.data<float>();
  auto* const sorted = scratch.data<float>();
  std::transform(elements, elements + from.numel(), sorted, magnitude);
  std::nth_element(sorted, sorted + count - 1, sorted + from.numel(), std::greater<>());
  const float smallest = sorted[count - 1];
  auto num_equal = std::count(sorted, sorted + count, smallest);
  for (int32_t i = 0, n = 0; n < count; ++i) {
    const float size = magnitude(elements[i]);
    if (size < smallest || (size == smallest && num_equal-- <= 0)) continue;
    indices[n] = i;
    values[n++] = std::exchange(elements[i], 0.0f);
  }
}

int64_t PlanMessage(double percent, Bucket& bucket) {
  bucket.numel = 0;
  int64_t num_indices = 0;
  for (size_t i = 0; i < bucket.params.size(); ++i) {
    const model::Parameter& param = *bucket.params[i];
    // Divides last: percent / 100 is rounded, and may lie above the share that is meant.
    const double sent_percent = param.shape().size() < 2 ? 100 : percent;
    const auto count =
        static_cast<int64_t>(std::ceil(sent_percent * static_cast<double>(param.numel()) / 100));
    bucket.offsets[i] = std::exchange(bucket.numel, bucket.numel + count);
    if (count == param.numel()) continue;
    Require(param.numel() <= std::numeric_limits<int32_t>::max(), "parameter '", param.name(), "' has ",
            param.numel(), " elements, expected fewer than 2^31 of one whose largest are sent");
    num_indices += count;
  }
  return bucket.numel * int64_t{sizeof(float)} + num_indices * int64_t{sizeof(int32_t)};
}

}  // namespace gradsync::ddp
