// Attention by tiles (FlashAttention-2, arXiv:2307.08691), with no tensor cores: f32 and f64 keep all their
// digits. (bf16 is in attention_bf16_cuda.cu.) A block of 16 x 16 threads has a tile of queries (or of keys)
// of one head and walks over the tiles of the other side; scores exist one tile at a time, in shared memory.
//
// The gradient takes two kernels, one with a tile of queries for dq and one with a tile of keys for dk and
// dv. Scores are computed twice, but nothing is added atomically: the same sums in every run, written
// straight to where they belong.

#include <type_traits>

#include "model/kernels/attention_cuda.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels {
namespace {

constexpr int kSide = 16;  // threads in each direction

// How a head of at most kDim columns, a multiple of 16, is cut up. Columns beyond head_dim are zero.
//
// Thread (ty, tx) has, of a tile of scores, rows ty * kRows + i and columns tx + 16 * j, i, j < kRows; and of
// a tile of results rows ty * kRows + i and columns tx + 16 * j, j < kCols.
template <class T, int kDimOf>
struct Tiling {
  static constexpr int kDim = kDimOf;
  // f64 needs twice the room.
  static constexpr int kTile = std::is_same_v<T, double> ? 32 : 64;
  static constexpr int kRows = kTile / kSide;
  static constexpr int kCols = kDim / kSide;
  // One more than a row's elements, so that the elements of a column are in different banks.
  static constexpr int kStride = kDim + 1;
  static constexpr int kScoreStride = kTile + 1;
  static constexpr int kTileNumel = kTile * kStride;
  static constexpr int kScoresNumel = kTile * kScoreStride;
};

// Copies positions first to first + kTile of a head to shared memory, times factor; zeros beyond the head.
template <class Tiles, class T>
__device__ void LoadTile(const HeadShape& shape, const T* x, int64_t columns, int64_t first, T factor,
                         T* tile) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < Tiles::kTile * Tiles::kDim; i += kSide * kSide) {
    const int row = i / Tiles::kDim, col = i % Tiles::kDim;
    const int64_t position = first + row;
    const bool inside = position < shape.seq && col < shape.head_dim;
    tile[row * Tiles::kStride + col] = inside ? x[columns + position * shape.d_model() + col] * factor : T{0};
  }
}

// scores[i][j] = the product of row ty * kRows + i of a with row tx + 16 * j of b.
template <class Tiles, class T>
__device__ void MultiplyRows(const T* a, const T* b, int ty, int tx,
                             T (&scores)[Tiles::kRows][Tiles::kRows]) {
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Tiles::kRows; ++j) scores[i][j] = 0;
  }
#pragma unroll 4
  for (int d = 0; d < Tiles::kDim; ++d) {
    T from_a[Tiles::kRows], from_b[Tiles::kRows];
#pragma unroll
    for (int i = 0; i < Tiles::kRows; ++i) {
      from_a[i] = a[(ty * Tiles::kRows + i) * Tiles::kStride + d];
      from_b[i] = b[(tx + kSide * i) * Tiles::kStride + d];
    }
#pragma unroll
    for (int i = 0; i < Tiles::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Tiles::kRows; ++j) scores[i][j] += from_a[i] * from_b[j];
    }
  }
}

// Puts a thread's scores where all threads can read them.
template <class Tiles, class T>
__device__ void Share(const T (&scores)[Tiles::kRows][Tiles::kRows], int ty, int tx, T* shared) {
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i) {
#pragma unroll
    for (int j = 0; j < Tiles::kRows; ++j) {
      shared[(ty * Tiles::kRows + i) * Tiles::kScoreStride + tx + kSide * j] = scores[i][j];
    }
  }
}

// sums[i][j] += the sum over k of p(row i, k) * x[k][column j], for this thread's rows and columns; p is
// taken transposed if kTransposed.
template <class Tiles, bool kTransposed, class T>
__device__ void AddProduct(const T* p, const T* x, int ty, int tx, T (&sums)[Tiles::kRows][Tiles::kCols]) {
#pragma unroll 4
  for (int k = 0; k < Tiles::kTile; ++k) {
    T from_p[Tiles::kRows];
#pragma unroll
    for (int i = 0; i < Tiles::kRows; ++i) {
      const int row = ty * Tiles::kRows + i;
      from_p[i] = kTransposed ? p[k * Tiles::kScoreStride + row] : p[row * Tiles::kScoreStride + k];
    }
#pragma unroll
    for (int j = 0; j < Tiles::kCols; ++j) {
      const T from_x = x[k * Tiles::kStride + tx + kSide * j];
#pragma unroll
      for (int i = 0; i < Tiles::kRows; ++i) sums[i][j] += from_p[i] * from_x;
    }
  }
}

// Writes a thread's part of a tile of results: sums[i][j] * factor.
template <class Tiles, class T>
__device__ void StoreTile(const HeadShape& shape, const HeadTile& here, int ty, int tx,
                          const T (&sums)[Tiles::kRows][Tiles::kCols], T factor, Destination<T*> out) {
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i) {
    const int64_t position = here.first + ty * Tiles::kRows + i;
#pragma unroll
    for (int j = 0; j < Tiles::kCols; ++j) {
      const int col = tx + kSide * j;
      if (position >= shape.seq || col >= shape.head_dim) continue;
      Store(out.data + here.columns + position * shape.d_model() + col, sums[i][j] * factor, out.accumulate);
    }
  }
}

// One block per tile of queries. The softmax is kept as numerators p = exp(score - max) and their sum, with
// the largest score so far as max: when it grows, what has been summed is scaled down.
template <class Tiles, class T>
__global__ void __launch_bounds__(kSide* kSide)
    AttentionKernel(CausalAttention<T> op, int64_t tiles, T scale) {
  const HeadShape& shape = op.shape;
  constexpr int kRows = Tiles::kRows;
  T* const queries = DynamicShared<T>();
  T* const other = queries + Tiles::kTileNumel;  // keys, then values
  T* const shared_p = other + Tiles::kTileNumel;
  const int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, Tiles::kTile);

  T max[kRows], sum[kRows], sums[kRows][Tiles::kCols], p[kRows][kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    max[i] = static_cast<T>(-INFINITY);
    sum[i] = 0;
#pragma unroll
    for (int j = 0; j < Tiles::kCols; ++j) sums[i][j] = 0;
  }
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, scale, queries);
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * Tiles::kTile;
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, T{1}, other);
    __syncthreads();
    MultiplyRows<Tiles>(queries, other, ty, tx, p);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64_t query = here.first + ty * kRows + i;
      T largest = max[i];
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        const int64_t key = first_key + tx + kSide * j;
        if (key > query || key >= shape.seq) p[i][j] = static_cast<T>(-INFINITY);
        largest = LargestOf{}(largest, p[i][j]);
      }
      // The 16 threads of a row of threads have a row of scores. The tile's first key is one that every query
      // of it may see, so this is finite from the first tile on.
      largest = CombineLanes<kSide>(largest, LargestOf{});
      const T shrink = exp(max[i] - largest);
      T of_tile = 0;
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        p[i][j] = exp(p[i][j] - largest);
        of_tile += p[i][j];
      }
      sum[i] = sum[i] * shrink + CombineLanes<kSide>(of_tile, SumOf{});
      max[i] = largest;
#pragma unroll
      for (int j = 0; j < Tiles::kCols; ++j) sums[i][j] *= shrink;
    }
    Share<Tiles>(p, ty, tx, shared_p);
    __syncthreads();  // the keys have been read, the numerators written
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, T{1}, other);
    __syncthreads();
    AddProduct<Tiles, false>(shared_p, other, ty, tx, sums);
    __syncthreads();  // the values and numerators have been read
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int64_t query = here.first + ty * kRows + i;
#pragma unroll
    for (int j = 0; j < Tiles::kCols; ++j) sums[i][j] /= sum[i];
    if (tx == 0 && query < shape.seq) op.log_sum_exp[here.positions + query] = max[i] + log(sum[i]);
  }
  StoreTile<Tiles>(shape, here, ty, tx, sums, T{1}, {.data = op.out});
}

// dots (batch, num_heads, seq): the product of a position's output with its gradient. A warp per position.
template <class T>
__global__ void OutputDotsKernel(CausalAttentionGrad<T> op, Wide<T>* dots) {
  const HeadShape& shape = op.shape;
  const int64_t index = GridIndex() / 32;
  if (index >= shape.batch * shape.num_heads * shape.seq) return;  // the same for all threads of a warp
  const int64_t position = index % shape.seq, head = index / shape.seq;
  const int64_t row = (head / shape.num_heads * shape.seq + position) * shape.d_model() +
                      head % shape.num_heads * shape.head_dim;
  Wide<T> dot = 0;
  for (int64_t col = threadIdx.x % 32; col < shape.head_dim; col += 32) {
    dot += Widen(op.out[row + col]) * Widen(op.dout[row + col]);
  }
  dot = CombineLanes<32>(dot, SumOf{});
  if (threadIdx.x % 32 == 0) dots[index] = dot;
}

// Computes, for each pair of a query in one tile and a key in another, the probability p and the gradient of
// the score, ds = p * (dout . v - dot). Both are zero where the query does not see the key. Queries are
// scaled.
template <class Tiles, class T>
__device__ void ScoreGradients(const CausalAttentionGrad<T>& op, const T* dots, const HeadTile& here,
                               int64_t first_query, int64_t first_key, const T* queries, const T* keys,
                               const T* values, const T* out_grads, int ty, int tx,
                               T (&p)[Tiles::kRows][Tiles::kRows], T (&ds)[Tiles::kRows][Tiles::kRows]) {
  MultiplyRows<Tiles>(queries, keys, ty, tx, p);
  MultiplyRows<Tiles>(out_grads, values, ty, tx, ds);
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i) {
    const int64_t query = first_query + ty * Tiles::kRows + i;
    const bool inside = query < op.shape.seq;
    const T log_sum_exp = inside ? op.log_sum_exp[here.positions + query] : T{0};
    const T dot = inside ? dots[here.positions + query] : T{0};
#pragma unroll
    for (int j = 0; j < Tiles::kRows; ++j) {
      const int64_t key = first_key + tx + kSide * j;
      const bool seen = inside && key <= query;
      p[i][j] = seen ? exp(p[i][j] - log_sum_exp) : T{0};
      ds[i][j] = seen ? p[i][j] * (ds[i][j] - dot) : T{0};
    }
  }
}

// One block per tile of queries.
template <class Tiles, class T>
__global__ void __launch_bounds__(kSide* kSide)
    QueryGradKernel(CausalAttentionGrad<T> op, int64_t tiles, T scale, const T* dots) {
  const HeadShape& shape = op.shape;
  T* const queries = DynamicShared<T>();
  T* const out_grads = queries + Tiles::kTileNumel;
  T* const keys = out_grads + Tiles::kTileNumel;
  T* const values = keys + Tiles::kTileNumel;
  T* const shared_ds = values + Tiles::kTileNumel;
  const int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, Tiles::kTile);

  T sums[Tiles::kRows][Tiles::kCols] = {};
  T p[Tiles::kRows][Tiles::kRows], ds[Tiles::kRows][Tiles::kRows];
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, scale, queries);
  LoadTile<Tiles>(shape, op.dout, here.columns, here.first, T{1}, out_grads);
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * Tiles::kTile;
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, T{1}, keys);
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, T{1}, values);
    __syncthreads();
    ScoreGradients<Tiles>(op, dots, here, here.first, first_key, queries, keys, values, out_grads, ty, tx, p,
                          ds);
    Share<Tiles>(ds, ty, tx, shared_ds);
    __syncthreads();
    AddProduct<Tiles, false>(shared_ds, keys, ty, tx, sums);
    __syncthreads();  // keys, values and scores have been read
  }
  StoreTile<Tiles>(shape, here, ty, tx, sums, scale, op.dq);
}

// One block per tile of keys, with the queries from that tile on, which alone see it.
template <class Tiles, class T>
__global__ void __launch_bounds__(kSide* kSide)
    KeyValueGradKernel(CausalAttentionGrad<T> op, int64_t tiles, T scale, const T* dots) {
  const HeadShape& shape = op.shape;
  T* const keys = DynamicShared<T>();
  T* const values = keys + Tiles::kTileNumel;
  T* const queries = values + Tiles::kTileNumel;
  T* const out_grads = queries + Tiles::kTileNumel;
  T* const shared_scores = out_grads + Tiles::kTileNumel;  // probabilities, then their gradients
  const int tx = static_cast<int>(threadIdx.x) % kSide, ty = static_cast<int>(threadIdx.x) / kSide;
  const int64_t tile = blockIdx.x % tiles;
  const HeadTile here(shape, blockIdx.x / tiles, tile, Tiles::kTile);

  T key_sums[Tiles::kRows][Tiles::kCols] = {}, value_sums[Tiles::kRows][Tiles::kCols] = {};
  T p[Tiles::kRows][Tiles::kRows], ds[Tiles::kRows][Tiles::kRows];
  LoadTile<Tiles>(shape, op.k, here.columns, here.first, T{1}, keys);
  LoadTile<Tiles>(shape, op.v, here.columns, here.first, T{1}, values);
  for (int64_t query_tile = tile; query_tile < tiles; ++query_tile) {
    const int64_t first_query = query_tile * Tiles::kTile;
    LoadTile<Tiles>(shape, op.q, here.columns, first_query, scale, queries);
    LoadTile<Tiles>(shape, op.dout, here.columns, first_query, T{1}, out_grads);
    __syncthreads();
    ScoreGradients<Tiles>(op, dots, here, first_query, here.first, queries, keys, values, out_grads, ty, tx,
                          p, ds);
    Share<Tiles>(p, ty, tx, shared_scores);
    __syncthreads();
    AddProduct<Tiles, true>(shared_scores, out_grads, ty, tx, value_sums);
    __syncthreads();  // the probabilities have been read
    Share<Tiles>(ds, ty, tx, shared_scores);
    __syncthreads();
    AddProduct<Tiles, true>(shared_scores, queries, ty, tx, key_sums);
    __syncthreads();  // queries, their gradients and the scores have been read
  }
  // The scale is in the queries already.
  if (op.dk.data != nullptr) StoreTile<Tiles>(shape, here, ty, tx, key_sums, T{1}, op.dk);
  if (op.dv.data != nullptr) StoreTile<Tiles>(shape, here, ty, tx, value_sums, T{1}, op.dv);
}

// Dynamic shared memory for `matrices` tiles of a head and one of scores.
template <class Tiles, class T>
constexpr size_t SharedBytes(int matrices) {
  return sizeof(T) * (matrices * Tiles::kTileNumel + Tiles::kScoresNumel);
}

}  // namespace

template <class T>
void CausalAttention<T>::OnCuda(Device& device) const {
  if constexpr (std::is_same_v<T, BF16>) {
    AttentionBF16(device, *this);
  } else {
    WithDim(shape.head_dim, [&]<int kDim>() {
      using Tiles = Tiling<T, kDim>;
      LaunchTiles(device, "CausalAttention", AttentionKernel<Tiles, T>, *this, Tiles::kTile, kSide * kSide,
                  SharedBytes<Tiles, T>(2));
    });
  }
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttention, OnCuda);

template <class T>
void CausalAttentionGrad<T>::OnCuda(Device& device) const {
  const int64_t positions = shape.batch * shape.num_heads * shape.seq;
  const Scratch<Wide<T>> dots(device, positions);
  constexpr int64_t kWarps = kThreads / 32;
  Launch(device, "AttentionOutputDots", OutputDotsKernel<T>, (positions + kWarps - 1) / kWarps, kThreads, 0,
         *this, dots.data());
  if constexpr (std::is_same_v<T, BF16>) {
    AttentionGradBF16(device, *this, dots.data());
  } else {
    WithDim(shape.head_dim, [&]<int kDim>() {
      using Tiles = Tiling<T, kDim>;
      const auto launch = [&](const char* name, auto kernel) {
        LaunchTiles(device, name, kernel, *this, Tiles::kTile, kSide * kSide, SharedBytes<Tiles, T>(4),
                    static_cast<const T*>(dots.data()));
      };
      if (dk.data != nullptr || dv.data != nullptr) {
        launch("AttentionKeyValueGrad", KeyValueGradKernel<Tiles, T>);
      }
      if (dq.data != nullptr) launch("AttentionQueryGrad", QueryGradKernel<Tiles, T>);
    });
  }
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttentionGrad, OnCuda);

}  // namespace gradsync::model::kernels
