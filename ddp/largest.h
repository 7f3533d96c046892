#ifndef GRADSYNC_DDP_LARGEST_H_
#define GRADSYNC_DDP_LARGEST_H_

#include <cstdint>

#include "model/tensor.h"

namespace gradsync::ddp {

// Moves the `count` elements with the largest magnitude from `from` (f32, on the CPU), where zeros take their
// places, to values[] and indices[], in the order of their indices. Of equal ones the first are taken. NaN
// and infinity are the largest: they must not stay behind. `scratch` has room for as many elements as `from`.
void TakeLargest(const model::Tensor& from, const model::Tensor& scratch, int64_t count, float* values,
                 int32_t* indices);

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_LARGEST_H_
