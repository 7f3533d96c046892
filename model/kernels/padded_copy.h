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
      : PaddedCopy(device, Stored{x, rows, cols}) {}

  Operand<float> operand() const { return {scratch_.data(), stride_, transposed_}; }

 private:
  struct Stored {
    Stored(Operand<T> operand, int64_t r, int64_t c) : x(operand), rows(r), cols(c) {
      if (x.transposed) std::swap(rows, cols);
    }
    Operand<T> x;
    int64_t rows, cols;
  };

  PaddedCopy(Device& device, const Stored& from)
      : stride_(PaddedStride<float>(from.cols)),
        scratch_(device, from.rows * stride_),
        transposed_(from.x.transposed) {
    ParallelFor(
        device, from.rows,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            CastSpan(from.x.data + i * from.x.stride, from.cols, scratch_.data() + i * stride_);
          }
        },
        16);
  }

  const int64_t stride_;
  const Scratch<float> scratch_;
  const bool transposed_;
};

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_PADDED_COPY_H_
