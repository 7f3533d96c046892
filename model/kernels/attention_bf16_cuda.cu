// Attention in bf16 by tiles, with tensor cores. A block of 8 warps has a tile of queries (or of keys) of one
// head and walks over the tiles of the other side. Scores of a pair of tiles are computed by tensor cores
// into shared memory, where every thread finds its elements; what becomes of them goes back in bf16 for the
// next product.
//
// The forward pass computes the scores twice: first for the rows' log-sum-exp, then for the probabilities. So
// sums stay in the tensor cores' accumulators, whose layout is their own, and are never scaled down on the
// way. The gradient takes two kernels, as in f32, and adds nothing atomically.

#include <mma.h>

#include <cmath>
#include <type_traits>

#include "model/kernels/attention_cuda.h"

namespace gradsync::model::kernels {
namespace {

namespace wmma = nvcuda::wmma;

constexpr int kSide = 16;  // of a fragment, the unit of tensor cores
constexpr int kTile = 64;  // positions
constexpr int kTileSides = kTile / kSide;
constexpr int kWarps = kThreads / 32;
// Rows in shared memory are longer than they need be, so that those of a fragment lie in different banks. All
// fragments begin at multiples of 32 bytes, as they must.
constexpr int kScoreStride = kTile + 4;
constexpr int kNarrowStride = kTile + 8;
constexpr int kScoresBytes = kTile * kScoreStride * 4;
constexpr int kNarrowBytes = kTile * kNarrowStride * 2;

// A tile of a head of at most kDim columns, a multiple of 16. Columns beyond head_dim are zero.
template <int kDimOf>
struct Tiling {
  static constexpr int kDim = kDimOf;
  static constexpr int kStride = kDim + 8;
  static constexpr int kBytes = kTile * kStride * 2;
  // A tile of results in f32 takes the room of two tiles when these have been read.
  static constexpr int kResultStride = kDim + 4;
  static_assert(kTile * kResultStride * 4 <= 2 * kBytes);
  static constexpr int kFragments = kTileSides * kDim / kSide;
  static constexpr int kFragmentsPerWarp = (kFragments + kWarps - 1) / kWarps;
};

using Number = __nv_bfloat16;
using Sum = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;
template <class Layout>
using Left = wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, Number, Layout>;
template <class Layout>
using Right = wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, Number, Layout>;

// Hands out the block's shared memory.
class SharedMemory {
 public:
  template <class T>
  __device__ T* Take(int bytes) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes;
    return taken;
  }

 private:
  unsigned char* next_ = DynamicShared<unsigned char>();
};

__device__ int Warp() { return static_cast<int>(threadIdx.x) / 32; }

// Copies positions first to first + kTile of a head to shared memory; zeros beyond the head.
template <class Tiles>
__device__ void LoadTile(const HeadShape& shape, const BF16* x, int64_t columns, int64_t first,
                         Number* tile) {
  constexpr int kVector = 8;  // 16 bytes
  constexpr int kVectors = Tiles::kDim / kVector;
  const bool aligned =
      shape.head_dim % kVector == 0 && reinterpret_cast<uintptr_t>(x) % (kVector * sizeof(BF16)) == 0;
  BF16* const to = reinterpret_cast<BF16*>(tile);
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kVectors; i += kThreads) {
    const int row = i / kVectors, col = i % kVectors * kVector;
    const int64_t position = first + row;
    const BF16* const from = x + columns + position * shape.d_model() + col;
    BF16* const place = to + row * Tiles::kStride + col;
    if (aligned && position < shape.seq && col < shape.head_dim) {
      *reinterpret_cast<int4*>(place) = *reinterpret_cast<const int4*>(from);
      continue;
    }
    for (int j = 0; j < kVector; ++j) {
      const bool inside = position < shape.seq && col + j < shape.head_dim;
      place[j] = inside ? from[j] : Narrow<BF16>(0.0f);
    }
  }
}

// scores = a b^T, of two tiles.
template <class Tiles>
__device__ void MultiplyRows(const Number* a, const Number* b, float* scores) {
  for (int i = Warp(); i < kTileSides * kTileSides; i += kWarps) {
    const int row = i / kTileSides * kSide, col = i % kTileSides * kSide;
    Sum sum;
    wmma::fill_fragment(sum, 0.0f);
#pragma unroll
    for (int k = 0; k < Tiles::kDim; k += kSide) {
      Left<wmma::row_major> left;
      Right<wmma::col_major> right;
      wmma::load_matrix_sync(left, a + row * Tiles::kStride + k, Tiles::kStride);
      wmma::load_matrix_sync(right, b + col * Tiles::kStride + k, Tiles::kStride);
      wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(scores + row * kScoreStride + col, sum, kScoreStride, wmma::mem_row_major);
  }
}

// This warp's fragments of a tile of results: numbers Warp(), Warp() + kWarps, ..., row by row.
template <class Tiles>
struct Sums {
  Sum fragments[Tiles::kFragmentsPerWarp];

  __device__ Sums() {
    for (Sum& fragment : fragments) wmma::fill_fragment(fragment, 0.0f);
  }

  // Calls fn(fragment, row, column) with where they are in the tile.
  template <class Fn>
  __device__ void ForEach(const Fn& fn) {
#pragma unroll
    for (int i = 0; i < Tiles::kFragmentsPerWarp; ++i) {
      const int number = Warp() + i * kWarps;
      constexpr int kPerRow = Tiles::kDim / kSide;
      if (number < Tiles::kFragments) fn(fragments[i], number / kPerRow * kSide, number % kPerRow * kSide);
    }
  }
};

// sums += p x, where p (kTile, kTile) is taken transposed if Layout is col_major.
template <class Layout, class Tiles>
__device__ void AddProduct(const Number* p, const Number* x, Sums<Tiles>& sums) {
  constexpr bool kTransposed = std::is_same_v<Layout, wmma::col_major>;
  sums.ForEach([&](Sum& sum, int row, int col) {
#pragma unroll
    for (int k = 0; k < kTile; k += kSide) {
      Left<Layout> left;
      Right<wmma::row_major> right;
      wmma::load_matrix_sync(left, kTransposed ? p + k * kNarrowStride + row : p + row * kNarrowStride + k,
                             kNarrowStride);
      wmma::load_matrix_sync(right, x + k * Tiles::kStride + col, Tiles::kStride);
      wmma::mma_sync(sum, left, right, sum);
    }
  });
}

// Writes sums * factor to where they belong. `room` is the block's, for two tiles; all threads have read what
// is there.
template <class Tiles>
__device__ void StoreTile(const HeadShape& shape, const HeadTile& here, Sums<Tiles>& sums, float factor,
                          float* room, Destination<BF16*> out) {
  sums.ForEach([&](Sum& sum, int row, int col) {
    wmma::store_matrix_sync(room + row * Tiles::kResultStride + col, sum, Tiles::kResultStride,
                            wmma::mem_row_major);
  });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * Tiles::kDim; i += kThreads) {
    const int row = i / Tiles::kDim, col = i % Tiles::kDim;
    const int64_t position = here.first + row;
    if (position >= shape.seq || col >= shape.head_dim) continue;
    Store(out.data + here.columns + position * shape.d_model() + col,
          room[row * Tiles::kResultStride + col] * factor, out.accumulate);
  }
}

// Takes the scores of a tile of keys into account: max and sum of row threadIdx.x / 4, of which each of four
// threads has every fourth score.
__device__ void AddToSoftmax(const HeadShape& shape, int64_t first_query, int64_t first_key, float scale,
                             const float* scores, float& max, float& sum) {
  const int row = static_cast<int>(threadIdx.x) / 4;
  const int64_t query = first_query + row;
  float mine[kTile / 4];
  float largest = max;
#pragma unroll
  for (int j = 0; j < kTile / 4; ++j) {
    const int col = static_cast<int>(threadIdx.x) % 4 + 4 * j;
    const int64_t key = first_key + col;
    const bool seen = key <= query && key < shape.seq;
    mine[j] = seen ? scores[row * kScoreStride + col] * scale : -INFINITY;
    largest = LargestOf{}(largest, mine[j]);
  }
  // The first tile's first key is one that every query may see, so this is finite.
  largest = CombineLanes<4>(largest, LargestOf{});
  float of_tile = 0;
#pragma unroll
  for (int j = 0; j < kTile / 4; ++j) of_tile += exp(mine[j] - largest);
  sum = sum * exp(max - largest) + CombineLanes<4>(of_tile, SumOf{});
  max = largest;
}

// Calls fn(row, column) for this thread's elements of a tile of scores.
template <class Fn>
__device__ void ForScores(const Fn& fn) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) fn(i / kTile, i % kTile);
}

// One block per tile of queries.
template <class Tiles>
__global__ void __launch_bounds__(kThreads)
    AttentionKernel(CausalAttention<BF16> op, int64_t tiles, float scale) {
  const HeadShape& shape = op.shape;
  __shared__ float of_rows[kTile];  // log-sum-exp
  SharedMemory memory;
  Number* const queries = memory.Take<Number>(Tiles::kBytes);
  Number* const other = memory.Take<Number>(Tiles::kBytes);  // keys, then values
  float* const scores = memory.Take<float>(kScoresBytes);
  Number* const p = memory.Take<Number>(kNarrowBytes);
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, kTile);

  // The scores of the block's queries with a tile of keys; `other` has been read. The barrier between loading
  // and multiplying also stands between a thread's reading of scores and the next ones.
  const auto compute_scores = [&](int64_t first_key) {
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, other);
    __syncthreads();
    MultiplyRows<Tiles>(queries, other, scores);
    __syncthreads();
  };
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, queries);
  float max = -INFINITY, sum = 0;
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    compute_scores(key_tile * kTile);
    AddToSoftmax(shape, here.first, key_tile * kTile, scale, scores, max, sum);
  }
  const int row = static_cast<int>(threadIdx.x) / 4;
  if (threadIdx.x % 4 == 0) {
    of_rows[row] = max + log(sum);
    if (here.first + row < shape.seq) op.log_sum_exp[here.positions + here.first + row] = of_rows[row];
  }
  Sums<Tiles> sums;
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * kTile;
    compute_scores(first_key);
    ForScores([&](int i, int j) {
      const bool seen = first_key + j <= here.first + i && first_key + j < shape.seq;
      const float value = seen ? exp(scores[i * kScoreStride + j] * scale - of_rows[i]) : 0.0f;
      p[i * kNarrowStride + j] = __float2bfloat16_rn(value);
    });
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, other);
    __syncthreads();
    AddProduct<wmma::row_major>(p, other, sums);
    __syncthreads();  // the values and probabilities have been read
  }
  StoreTile(shape, here, sums, 1.0f, reinterpret_cast<float*>(queries), {.data = op.out});
}

// The shared memory of a block that computes gradients. queries and out_grads lie side by side, keys and
// values likewise, as StoreTile needs them.
template <class Tiles>
struct GradMemory : SharedMemory {
  Number* const queries = Take<Number>(Tiles::kBytes);
  Number* const out_grads = Take<Number>(Tiles::kBytes);
  Number* const keys = Take<Number>(Tiles::kBytes);
  Number* const values = Take<Number>(Tiles::kBytes);
  float* const scores = Take<float>(2 * kScoresBytes);  // two tiles of them
  Number* const p = Take<Number>(kNarrowBytes);
  Number* const ds = Take<Number>(kNarrowBytes);
};

// Computes, for each pair of a query in one tile and a key in another, the probability p and the gradient of
// the score, ds = p * (dout . v - dot). Both are zero where the query does not see the key. On return all
// threads may read p and ds.
template <class Tiles>
__device__ void ScoreGradients(const CausalAttentionGrad<BF16>& op, const float* dots, const HeadTile& here,
                               int64_t first_query, int64_t first_key, float scale,
                               const GradMemory<Tiles>& memory) {
  float* const p_grads = memory.scores + kTile * kScoreStride;
  MultiplyRows<Tiles>(memory.queries, memory.keys, memory.scores);
  MultiplyRows<Tiles>(memory.out_grads, memory.values, p_grads);
  __syncthreads();
  ForScores([&](int i, int j) {
    const int64_t query = first_query + i, key = first_key + j;
    float probability = 0, gradient = 0;
    if (query < op.shape.seq && key <= query) {
      const int at = i * kScoreStride + j;
      probability = exp(memory.scores[at] * scale - op.log_sum_exp[here.positions + query]);
      gradient = probability * (p_grads[at] - dots[here.positions + query]);
    }
    memory.p[i * kNarrowStride + j] = __float2bfloat16_rn(probability);
    memory.ds[i * kNarrowStride + j] = __float2bfloat16_rn(gradient);
  });
  __syncthreads();
}

// One block per tile of queries.
template <class Tiles>
__global__ void __launch_bounds__(kThreads)
    QueryGradKernel(CausalAttentionGrad<BF16> op, int64_t tiles, float scale, const float* dots) {
  const HeadShape& shape = op.shape;
  const GradMemory<Tiles> memory;
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, kTile);

  Sums<Tiles> sums;
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, memory.queries);
  LoadTile<Tiles>(shape, op.dout, here.columns, here.first, memory.out_grads);
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * kTile;
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, memory.keys);
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, memory.values);
    __syncthreads();
    ScoreGradients(op, dots, here, here.first, first_key, scale, memory);
    AddProduct<wmma::row_major>(memory.ds, memory.keys, sums);
    __syncthreads();  // keys, values and scores have been read
  }
  StoreTile(shape, here, sums, scale, reinterpret_cast<float*>(memory.queries), op.dq);
}

// One block per tile of keys, with the queries from that tile on, which alone see it.
template <class Tiles>
__global__ void __launch_bounds__(kThreads)
    KeyValueGradKernel(CausalAttentionGrad<BF16> op, int64_t tiles, float scale, const float* dots) {
  const HeadShape& shape = op.shape;
  const GradMemory<Tiles> memory;
  const int64_t tile = blockIdx.x % tiles;
  const HeadTile here(shape, blockIdx.x / tiles, tile, kTile);

  Sums<Tiles> key_sums, value_sums;
  LoadTile<Tiles>(shape, op.k, here.columns, here.first, memory.keys);
  LoadTile<Tiles>(shape, op.v, here.columns, here.first, memory.values);
  for (int64_t query_tile = tile; query_tile < tiles; ++query_tile) {
    const int64_t first_query = query_tile * kTile;
    LoadTile<Tiles>(shape, op.q, here.columns, first_query, memory.queries);
    LoadTile<Tiles>(shape, op.dout, here.columns, first_query, memory.out_grads);
    __syncthreads();
    ScoreGradients(op, dots, here, first_query, here.first, scale, memory);
    AddProduct<wmma::col_major>(memory.p, memory.out_grads, value_sums);
    AddProduct<wmma::col_major>(memory.ds, memory.queries, key_sums);
    __syncthreads();  // queries, their gradients and the scores have been read
  }
  float* const room = reinterpret_cast<float*>(memory.keys);
  if (op.dk.data != nullptr) StoreTile(shape, here, key_sums, scale, room, op.dk);
  __syncthreads();  // the room has been read
  if (op.dv.data != nullptr) StoreTile(shape, here, value_sums, 1.0f, room, op.dv);
}

}  // namespace

void AttentionBF16(const Device& device, const CausalAttention<BF16>& op) {
  WithDim(op.shape.head_dim, [&]<int kDim>() {
    using Tiles = Tiling<kDim>;
    LaunchTiles(device, "CausalAttention", AttentionKernel<Tiles>, op, kTile, kThreads,
                2 * Tiles::kBytes + kScoresBytes + kNarrowBytes);
  });
}

void AttentionGradBF16(const Device& device, const CausalAttentionGrad<BF16>& op, const float* dots) {
  WithDim(op.shape.head_dim, [&]<int kDim>() {
    using Tiles = Tiling<kDim>;
    const auto launch = [&](const char* name, auto kernel) {
      LaunchTiles(device, name, kernel, op, kTile, kThreads,
                  4 * Tiles::kBytes + 2 * kScoresBytes + 2 * kNarrowBytes, dots);
    };
    if (op.dk.data != nullptr || op.dv.data != nullptr) {
      launch("AttentionKeyValueGrad", KeyValueGradKernel<Tiles>);
    }
    if (op.dq.data != nullptr) launch("AttentionQueryGrad", QueryGradKernel<Tiles>);
  });
}

}  // namespace gradsync::model::kernels
