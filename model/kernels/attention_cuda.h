#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_

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

// The block's tile of queries. Later tiles see more keys, and what takes longest begins first, so that little
// is left when the GPU runs empty. (Of keys the first tiles are seen by most queries: blockIdx.x % tiles.)
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

// CausalAttention and its gradient in bf16, on tensor cores. Probabilities and the gradients of scores are
// rounded to bf16 where they are multiplied; scores, sums and exponentials are f32.
void AttentionBF16(const Device& device, const HeadShape& shape, const BF16* q, const BF16* k, const BF16* v,
                   BF16* out, float* log_sum_exp);

// dots (batch, num_heads, seq): the product of each position's output with its gradient.
void AttentionGradBF16(const Device& device, const HeadShape& shape, const BF16* q, const BF16* k,
                       const BF16* v, const BF16* dout, const float* log_sum_exp, const float* dots,
                       Destination<BF16*> dq, Destination<BF16*> dk, Destination<BF16*> dv);

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
