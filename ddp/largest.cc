#include "ddp/largest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace gradsync::ddp {

void TakeLargest(const model::Tensor& from, const model::Tensor& scratch, int64_t count, float* values,
                 int32_t* indices) {
  if (count == 0) return;
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

}  // namespace gradsync::ddp
