// Rotary positions: a block per position, with the rotations of all positions in a table that stays on the
// GPU.

#include "model/kernels/cuda_support.h"
#include "model/kernels/rope.h"
#include "model/kernels/rope_table.h"

namespace gradsync::model::kernels {
namespace {

// x and y are (batch * seq, num_heads * pairs, 2).
template <class T>
__global__ void RopeKernel(Rope<T> rope, const Wide<T>* table) {
  using W = Wide<T>;
  const HeadShape& shape = rope.shape;
  const unsigned pairs = shape.head_dim / 2, row_pairs = shape.d_model() / 2;
  for (int64_t row = blockIdx.x; row < shape.batch * shape.seq; row += gridDim.x) {
    const W* const rotations = table + row % shape.seq * shape.head_dim;
    const int64_t first = row * row_pairs;
    // In 32 bits, which no row exceeds: a division in 64 takes longer than all else that is done to a pair.
    for (unsigned i = threadIdx.x; i < row_pairs; i += blockDim.x) {
      const W* const rotation = rotations + 2 * (i % pairs);
      const W cosine = rotation[0], sine = rope.inverse ? -rotation[1] : rotation[1];
      const int64_t at = 2 * (first + i);
      const W a = Widen(rope.x[at]), b = Widen(rope.x[at + 1]);
      Store(rope.y.data + at, a * cosine - b * sine, rope.y.accumulate);
      Store(rope.y.data + at + 1, a * sine + b * cosine, rope.y.accumulate);
    }
  }
}

}  // namespace

template <class T>
void Rope<T>::OnCuda(Device& device) const {
  const int64_t rows = shape.batch * shape.seq;
  if (rows * shape.d_model() == 0) return;
  const Wide<T>* table = device.Resource<RopeTables<Wide<T>>>().Get(shape.seq, shape.head_dim, theta);
  Launch(device, "Rope", RopeKernel<T>, LoopBlocks(device, rows * kThreads), kThreads, 0, *this, table);
}
GRADSYNC_INSTANTIATE_KERNEL(Rope, OnCuda);

}  // namespace gradsync::model::kernels
