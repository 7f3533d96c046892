#ifndef GRADSYNC_MODEL_KERNELS_PADDED_COPY_H_
#define GRADSYNC_MODEL_KERNELS_PADDED_COPY_H_

#include <cstdint>
#include <utility>

#include "model/device.h"
#include "model/kernels/eigen.h"
#include "model/kernels/gemm.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {

// An operand of `rows` rows of `cols` elements, as f32, with its rows where caches take them best: the stride
// is PaddedStride's.
template <class T>
class PaddedCopy {
 public:
  PaddedCopy(Device& device, int64_t rows, int64_t cols, Operand<T> x)
      : stride_(PaddedStride<float>(x.transposed ? rows : cols)),
        scratch_(device, (x.transposed ? cols : rows) * stride_),
        transposed_(x.transposed) {
    if (transposed_) std::swap(rows, cols);  // as it is stored
    ParallelFor(
        device, rows,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            CastSpan(x.data + i * x.stride, cols, scratch_.data() + i * stride_);
          }
        },
        16);
  }

  Operand<float> operand() const { return {scratch_.data(), stride_, transposed_}; }

 private:
  const int64_t stride_;
  const Scratch<float> scratch_;
  const bool transposed_;
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_PADDED_COPY_H_
