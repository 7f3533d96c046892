// Computes rotary positions with one warp per position. A table on the GPU has the rotations of all
// positions.

#include "model/kernels/rope.h"
#include "model/kernels/rope_table.h"
#include "model/tensor/cuda_support.h"

namespace gradsync::model::kernels {

template <class T>
void Rope<T>::OnCuda(Device& device) const {
  const int64_t rows = shape.batch * shape.seq;
  if (rows * shape.d_model() == 0) return;
  const Wide<T>* table = device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, shape.head_dim, theta);
  const bool packed = shape.head_dim % kPackNumel<T> == 0 && ArePacked(x, y.data, table);
  LaunchRows<T>(device, "Rope", rows, packed, [=, *this] __device__(auto numel, int64_t row, int64_t lane) {
    using W = Wide<T>;
    constexpr int kNumel = numel == 1 ? 2 : numel;
    const W* const rotations = table + row % shape.seq * shape.head_dim;
    const int64_t d = shape.d_model();
    for (int64_t at = lane * kNumel; at < d; at += kWarp * kNumel) {
      W pairs[kNumel], rotation[kNumel];
      Load(x + row * d + at, pairs);
      // Uses 32 bits, which are enough for a row, because a division in 64 bits takes longer than all other
      // work for a pair.
      Load(rotations + static_cast<unsigned>(at) % static_cast<unsigned>(shape.head_dim), rotation);
      for (int i = 0; i < kNumel; i += 2) {
        const W cosine = rotation[i], sine = inverse ? -rotation[i + 1] : rotation[i + 1];
        const W a = pairs[i], b = pairs[i + 1];
        pairs[i] = a * cosine - b * sine;
        pairs[i + 1] = a * sine + b * cosine;
      }
      Store(y.data + row * d + at, pairs, y.accumulate);
    }
  });
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCuda);

}  // namespace gradsync::model::kernels
