#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_

#include <cmath>

#include "model/error.h"
#include "model/kernels/attention.h"
#include "model/kernels/cuda_support.h"

// What the kernels of attention for CUDA share: those with tensor cores, for bf16, and those without. For .cu
// files only.
namespace gradsync::model::kernels {

// A tile of positions of one head of one sequence, and where it is.
struct HeadTile {
  __device__ HeadTile(const HeadShape& shape, int64_t head, int64_t tile, int tile_rows)
      : first(tile * tile_rows),
        columns(head / shape.num_heads * shape.seq * shape.d_model() +
                head % shape.num_heads * shape.head_dim),
        positions(head * shape.seq) {}

  int64_t first;      // of the positions
  int64_t columns;    // of the head's first column in (batch, seq, d_model)
  int64_t positions;  // of the head's first number in (batch, num_heads, seq)
};

// The block's tile of queries. Later tiles see more keys and take longer. They begin first, so that little is
// left when the GPU runs empty. (Tiles of keys begin with the first, blockIdx.x % tiles, because most queries
// see it.)
__device__ inline int64_t HeaviestFirst(int64_t tiles) { return tiles - 1 - blockIdx.x % tiles; }

// Calls fn.operator()<kDim>() with the smallest size of tiles that has room for a head.
template <class Fn>
void WithDim(int64_t head_dim, const Fn& fn) {
  if (head_dim <= 32) return fn.template operator()<32>();
  if (head_dim <= 64) return fn.template operator()<64>();
  if (head_dim <= 80) return fn.template operator()<80>();
  if (head_dim <= 128) return fn.template operator()<128>();
  throw InvalidInput(Join("attention: a head has size ", head_dim, ", on CUDA expected at most 128"));
}

// Launches kernel(op, tiles, scale, args...) with a block per tile of each head. Scores are multiplied by
// `scale`.
template <template <class> class Op, class T, class Kernel, class... Args>
void LaunchTiles(const Device& device, const char* name, Kernel kernel, const Op<T>& op, int tile_rows,
                 int threads, size_t shared_bytes, const Args&... args) {
  Gpu(device).MakeCurrent();
  // Blocks get 48 KiB unless more is asked for.
  GRADSYNC_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)));
  const int64_t tiles = (op.shape.seq + tile_rows - 1) / tile_rows;
  const Wide<T> scale = Wide<T>{1} / std::sqrt(static_cast<Wide<T>>(op.shape.head_dim));
  Launch(device, name, kernel, op.shape.batch * op.shape.num_heads * tiles, threads, shared_bytes, op, tiles,
         scale, args...);
}

// CausalAttention and its gradient in bf16, on tensor cores. Probabilities and the gradients of scores are
// rounded to bf16 where they are multiplied; scores, sums and exponentials are f32.
void AttentionBF16(const Device& device, const CausalAttention<BF16>& op);

// dots (batch, num_heads, seq): the product of each position's output with its gradient.
void AttentionGradBF16(const Device& device, const CausalAttentionGrad<BF16>& op, const float* dots);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
