// Computes attention by tiles (FlashAttention-2, arXiv:2307.08691). A block of 8 warps has a tile of queries
// (or of keys) of one head and iterates over the tiles of keys (or of queries). Scores of a pair of tiles are
// computed into shared memory. Every thread reads its elements from there, and writes its results back for
// the next product.
//
// In bf16, cuDNN computes attention on tensor cores if possible. Other cases in bf16 use these kernels, which
// compute in f32.
//
// The forward pass computes the scores twice: first for the sums of rows, and then for the probabilities. So
// sums are never rescaled.
//
// The gradient needs two kernels, one with a tile of queries for dq, and one with a tile of keys for dk and
// dv. Scores are computed twice, but nothing is added atomically, so sums are equal in every run, and are
// written directly to their destination.

#include <cmath>

#include "model/base/error.h"
#include "model/kernels/attention_cuda.h"
#include "model/kernels/attention_cudnn.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// Returns the block's tile of queries. Later tiles use more keys and take longer, so they begin first, and
// the last blocks to run are short. (Tiles of keys begin with the first, blockIdx.x % tiles, because most
// queries use it.)
__device__ int64_t HeaviestFirst(int64_t tiles) { return tiles - 1 - blockIdx.x % tiles; }

// Updates the maximum and the sum of row threadIdx.x / kLanes with the scores of a tile of keys. Each of
// kLanes threads has every kLanes-th score of the row.
template <class Tiles, int kLanes, class W>
__device__ void AddToSoftmax(const HeadShape& shape, int64_t first_query, int64_t first_key, const W* scores,
                             W& max, W& sum) {
  constexpr int kMine = Tiles::kTile / kLanes;
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  W mine[kMine];
  W largest = max;
#pragma unroll
  for (int j = 0; j < kMine; ++j) {
    const int col = static_cast<int>(threadIdx.x) % kLanes + kLanes * j;
    const int64_t key = first_key + col;
    const bool seen = key <= first_query + row && key < shape.seq;
    mine[j] = seen ? scores[row * Tiles::kScoreStride + col] : static_cast<W>(-INFINITY);
    largest = LargestOf{}(largest, mine[j]);
  }
  // Every query may use the first key of the first tile, so the maximum is finite.
  largest = CombineLanes<kLanes>(largest, LargestOf{});
  W of_tile = 0;
#pragma unroll
  for (int j = 0; j < kMine; ++j) of_tile += exp(mine[j] - largest);
  sum = sum * exp(max - largest) + CombineLanes<kLanes>(of_tile, SumOf{});
  max = largest;
}

// Calls fn(row, column) for this thread's elements of a tile of scores.
template <class Tiles, class Fn>
__device__ void ForScores(const Fn& fn) {
  constexpr int kTile = Tiles::kTile;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += kThreads) fn(i / kTile, i % kTile);
}

// One block per tile of queries.
template <class Tiles, class T>
__global__ void __launch_bounds__(kThreads)
    AttentionKernel(CausalAttention<T> op, int64_t tiles, Wide<T> scale) {
  using W = Wide<T>;
  using Number = typename Tiles::Number;
  constexpr int kTile = Tiles::kTile, kLanes = kThreads / kTile;
  const HeadShape& shape = op.shape;
  __shared__ W of_rows[2][kTile];  // the largest score, and the inverse of the sum of exponentials
  SharedMemory memory;
  Number* const queries = memory.Take<Number>(Tiles::kBytes);
  Number* const other = memory.Take<Number>(Tiles::kBytes);  // keys, then values
  W* const scores = memory.Take<W>(Tiles::kScoresBytes);     // then probabilities
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, kTile);

  // Computes the scores of the block's queries with a tile of keys; all threads have read `other`. The
  // barrier between loading and multiplying also separates a thread's reading of scores from writing the next
  // scores.
  const auto compute_scores = [&](int64_t first_key) {
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, other);
    __syncthreads();
    Tiles::MultiplyRows(queries, other, scale, scores);
    __syncthreads();
  };
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, queries);
  W max = static_cast<W>(-INFINITY), sum = 0;
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    compute_scores(key_tile * kTile);
    AddToSoftmax<Tiles, kLanes>(shape, here.first, key_tile * kTile, scores, max, sum);
  }
  const int row = static_cast<int>(threadIdx.x) / kLanes;
  if (threadIdx.x % kLanes == 0) {
    of_rows[0][row] = max;
    of_rows[1][row] = W{1} / sum;
    if (here.first + row < shape.seq) op.log_sum_exp[here.positions + here.first + row] = max + log(sum);
  }
  typename Tiles::Sums sums;
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * kTile;
    compute_scores(first_key);
    ForScores<Tiles>([&](int i, int j) {
      const bool seen = first_key + j <= here.first + i && first_key + j < shape.seq;
      W& score = scores[i * Tiles::kScoreStride + j];
      score = seen ? exp(score - of_rows[0][i]) * of_rows[1][i] : W{0};
    });
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, other);
    __syncthreads();
    sums.template AddProduct<false>(scores, other);
    __syncthreads();  // the values and probabilities have been read
  }
  sums.Store(shape, here, W{1}, Destination<T*>{.data = op.out});
}

// Computes dots (batch, num_heads, seq), the product of the output of a position with its gradient. Each
// position has a warp.
template <class T>
__global__ void OutputDotsKernel(CausalAttentionGrad<T> op, Wide<T>* dots) {
  const HeadShape& shape = op.shape;
  const int64_t index = GridIndex() / 32;
  // This condition is equal for all threads of a warp.
  if (index >= shape.batch * shape.num_heads * shape.seq) return;
  const int64_t position = index % shape.seq, head = index / shape.seq;
  const int64_t row = (head / shape.num_heads * shape.seq + position) * shape.d_model() +
                      head % shape.num_heads * shape.head_dim;
  Wide<T> dot = 0;
  for (int64_t col = threadIdx.x % 32; col < shape.head_dim; col += 32)
    dot += Widen(op.out[row + col]) * Widen(op.dout[row + col]);
  dot = CombineLanes<32>(dot, SumOf{});
  if (threadIdx.x % 32 == 0) dots[index] = dot;
}

// The shared memory of a block that computes gradients. Scores are replaced by probabilities, and gradients
// of probabilities by gradients before the softmax.
template <class Tiles>
struct GradMemory : SharedMemory {
  using Number = typename Tiles::Number;
  Number* const queries = this->template Take<Number>(Tiles::kBytes);
  Number* const out_grads = this->template Take<Number>(Tiles::kBytes);
  Number* const keys = this->template Take<Number>(Tiles::kBytes);
  Number* const values = this->template Take<Number>(Tiles::kBytes);
  Number* const scores = this->template Take<Number>(Tiles::kScoresBytes);
  Number* const score_grads = this->template Take<Number>(Tiles::kScoresBytes);
};

// Computes, for each pair of a query in one tile and a key in another, the probability p and the gradient of
// the score, p * (dout . v - dot). Both are zero if the query does not use the key. On return all threads may
// read them.
template <class Tiles, class T>
__device__ void ScoreGradients(const CausalAttentionGrad<T>& op, const Wide<T>* dots, const HeadTile& here,
                               int64_t first_query, int64_t first_key, Wide<T> scale,
                               const GradMemory<Tiles>& memory) {
  Tiles::MultiplyRows(memory.queries, memory.keys, scale, memory.scores);
  Tiles::MultiplyRows(memory.out_grads, memory.values, Wide<T>{1}, memory.score_grads);
  __syncthreads();
  ForScores<Tiles>([&](int i, int j) {
    const int64_t query = first_query + i, key = first_key + j;
    const int at = i * Tiles::kScoreStride + j;
    Wide<T>&score = memory.scores[at], &grad = memory.score_grads[at];
    const bool seen = query < op.shape.seq && key <= query;
    score = seen ? exp(score - op.log_sum_exp[here.positions + query]) : 0;
    grad = seen ? score * (grad - dots[here.positions + query]) : 0;
  });
  __syncthreads();
}

// One block per tile of queries.
template <class Tiles, class T>
__global__ void __launch_bounds__(kThreads)
    QueryGradKernel(CausalAttentionGrad<T> op, int64_t tiles, Wide<T> scale, const Wide<T>* dots) {
  const HeadShape& shape = op.shape;
  GradMemory<Tiles> memory;
  const int64_t tile = HeaviestFirst(tiles);
  const HeadTile here(shape, blockIdx.x / tiles, tile, Tiles::kTile);

  typename Tiles::Sums sums;
  LoadTile<Tiles>(shape, op.q, here.columns, here.first, memory.queries);
  LoadTile<Tiles>(shape, op.dout, here.columns, here.first, memory.out_grads);
  for (int64_t key_tile = 0; key_tile <= tile; ++key_tile) {
    const int64_t first_key = key_tile * Tiles::kTile;
    LoadTile<Tiles>(shape, op.k, here.columns, first_key, memory.keys);
    LoadTile<Tiles>(shape, op.v, here.columns, first_key, memory.values);
    __syncthreads();
    ScoreGradients(op, dots, here, here.first, first_key, scale, memory);
    sums.template AddProduct<false>(memory.score_grads, memory.keys);
    __syncthreads();  // keys, values and scores have been read
  }
  sums.Store(shape, here, scale, op.dq);
}

// One block per tile of keys. It iterates over the queries from this tile on, because only these queries use
// the keys.
template <class Tiles, class T>
__global__ void __launch_bounds__(kThreads)
    KeyValueGradKernel(CausalAttentionGrad<T> op, int64_t tiles, Wide<T> scale, const Wide<T>* dots) {
  const HeadShape& shape = op.shape;
  GradMemory<Tiles> memory;
  const int64_t tile = blockIdx.x % tiles;
  const HeadTile here(shape, blockIdx.x / tiles, tile, Tiles::kTile);

  typename Tiles::Sums key_sums, value_sums;
  LoadTile<Tiles>(shape, op.k, here.columns, here.first, memory.keys);
  LoadTile<Tiles>(shape, op.v, here.columns, here.first, memory.values);
  for (int64_t query_tile = tile; query_tile < tiles; ++query_tile) {
    const int64_t first_query = query_tile * Tiles::kTile;
    LoadTile<Tiles>(shape, op.q, here.columns, first_query, memory.queries);
    LoadTile<Tiles>(shape, op.dout, here.columns, first_query, memory.out_grads);
    __syncthreads();
    ScoreGradients(op, dots, here, first_query, here.first, scale, memory);
    value_sums.template AddProduct<true>(memory.scores, memory.out_grads);
    key_sums.template AddProduct<true>(memory.score_grads, memory.queries);
    __syncthreads();  // queries, their gradients and the scores have been read
  }
  if (op.dk.data != nullptr) key_sums.Store(shape, here, scale, op.dk);
  if (op.dv.data != nullptr) value_sums.Store(shape, here, Wide<T>{1}, op.dv);
}

// Calls fn.operator()<Tiles>() with the smallest tiles that hold a head.
template <class T, class Fn>
void WithTiles(int64_t head_dim, const Fn& fn) {
  if (head_dim <= 32) return fn.template operator()<Tiles<Wide<T>, 32>>();
  if (head_dim <= 64) return fn.template operator()<Tiles<Wide<T>, 64>>();
  if (head_dim <= 80) return fn.template operator()<Tiles<Wide<T>, 80>>();
  if (head_dim <= 128) return fn.template operator()<Tiles<Wide<T>, 128>>();
  throw InvalidInput(Join("attention: a head has size ", head_dim, ", on CUDA expected at most 128"));
}

// Launches kernel(op, tiles, scale, args...) with a block per tile of each head, and shared memory for the
// given numbers of tiles of a head and of scores. Scores are multiplied by `scale`.
template <class Tiles, template <class> class Op, class T, class Kernel, class... Args>
void LaunchTiles(const Device& device, const char* name, Kernel kernel, const Op<T>& op, int num_tiles,
                 int num_scores, const Args&... args) {
  const int shared_bytes = num_tiles * Tiles::kBytes + num_scores * Tiles::kScoresBytes;
  Gpu(device).MakeCurrent();
  // By default a block has 48 KiB of shared memory.
  GRADSYNC_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const int64_t tiles = (op.shape.seq + Tiles::kTile - 1) / Tiles::kTile;
  const Wide<T> scale = Wide<T>{1} / std::sqrt(static_cast<Wide<T>>(op.shape.head_dim));
  Launch(device, name, kernel, op.shape.batch * op.shape.num_heads * tiles, kThreads,
         static_cast<size_t>(shared_bytes), op, tiles, scale, args...);
}

}  // namespace

template <class T>
void CausalAttention<T>::OnCuda(Device& device) const {
  if constexpr (std::is_same_v<T, BF16>) {
    if (ByCudnn(device, *this)) return;
  }
  WithTiles<T>(shape.head_dim, [&]<class Tiles>() {
    LaunchTiles<Tiles>(device, "CausalAttention", AttentionKernel<Tiles, T>, *this, 2, 1);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttention, OnCuda);

template <class T>
void CausalAttentionGrad<T>::OnCuda(Device& device) const {
  if constexpr (std::is_same_v<T, BF16>) {
    if (ByCudnn(device, *this)) return;
  }
  const int64_t positions = shape.batch * shape.num_heads * shape.seq;
  const Scratch<Wide<T>> dots(device, positions);
  constexpr int64_t kWarps = kThreads / 32;
  Launch(device, "AttentionOutputDots", OutputDotsKernel<T>, (positions + kWarps - 1) / kWarps, kThreads, 0,
         *this, dots.data());
  WithTiles<T>(shape.head_dim, [&]<class Tiles>() {
    const auto launch = [&](const char* name, auto kernel) {
      LaunchTiles<Tiles>(device, name, kernel, *this, 4, 2, static_cast<const Wide<T>*>(dots.data()));
    };
    if (dk.data != nullptr || dv.data != nullptr)
      launch("AttentionKeyValueGrad", KeyValueGradKernel<Tiles, T>);
    if (dq.data != nullptr) launch("AttentionQueryGrad", QueryGradKernel<Tiles, T>);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttentionGrad, OnCuda);

}  // namespace gradsync::model::kernels
