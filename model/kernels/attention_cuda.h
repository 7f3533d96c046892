#pragma once

#include "model/kernels/attention.h"
#include "model/tensor/cuda_support.h"

// Defines tiles (small matrices in the shared memory of a CUDA block) for the attention kernels in
// attention_cuda.cu, and functions that multiply tiles.
namespace gradsync::model::kernels {

// Says which elements of a tensor such as q, k or v a tile has: those of `tile_rows` consecutive positions of
// one head of one sequence.
struct HeadTile {
  __device__ HeadTile(const HeadShape& shape, int64_t head, int64_t tile, int tile_rows)
      : first(tile * tile_rows),
        columns(head / shape.num_heads * shape.seq * shape.d_model() +
                head % shape.num_heads * shape.head_dim),
        positions(head * shape.seq) {}

  int64_t first;      // first position of the tile
  int64_t columns;    // offset of the head's first column in (batch, seq, d_model)
  int64_t positions;  // offset of the head's first number in (batch, num_heads, seq)
};

// Divides the dynamic shared memory of a CUDA block into arrays: each call of Take returns a pointer to an
// array of `bytes` bytes, which follows the previous array.
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

// Multiplies tiles: matrices in shared memory, of the shape (kTile, kDim) or (kTile, kTile). A (kTile, kDim)
// tile has kTile rows (positions) of one head of q, k, v or dout (the gradient of attention's output). A
// (kTile, kTile) tile has attention scores, probabilities or their gradients. kDim is head_dim rounded up to
// 32, 64, 80 or 128; a (kTile, kDim) tile has zeros in the columns from head_dim on. Number, float or double,
// is the type of a tile's elements. Products of tiles do not use the GPU's tensor cores, which would round
// f32 inputs.
//
// A CUDA block has 256 threads: thread (ty, tx), where ty and tx are 0 to 15, has threadIdx.x = 16 ty + tx.
// Of a product of two tiles, thread (ty, tx) computes every 16th column from column tx on, in the kRows =
// kTile / 16 consecutive rows from row ty * kRows on.
template <class NumberOf, int kDimOf>
struct Tiles {
  using Number = NumberOf;
  static constexpr int kDim = kDimOf;
  // Tiles have 32 rows instead of 64 if Number is double, or if kDim (the padded head_dim) is 80, to need
  // less of the GPU's shared memory. If kDim is 80, tiles of 64 rows would be too large for the gradient
  // kernels on GPUs of compute capability 8.6 and 8.9, which have 99 KiB of shared memory per block.
  static constexpr int kTile = sizeof(Number) == 8 || kDim == 80 ? 32 : 64;
  // The number of elements from the start of a row of a (kTile, kDim) tile to the start of the next. This
  // stride is one more than kDim, so that neighbours in a column are in different banks of the shared memory.
  static constexpr int kStride = kDim + 1;
  static constexpr int kScoreStride = kTile + 1;
  static constexpr int kBytes = kTile * kStride * sizeof(Number);
  static constexpr int kScoresBytes = kTile * kScoreStride * sizeof(Number);

  static constexpr int kSide = 16;
  static constexpr int kRows = kTile / kSide, kCols = kDim / kSide;
  __device__ static int Row(int i) { return static_cast<int>(threadIdx.x) / kSide * kRows + i; }
  __device__ static int Col(int j) { return static_cast<int>(threadIdx.x) % kSide + kSide * j; }

  // Computes this thread's elements of the (kTile, kTile) tile scores = factor * a b^T, where a and b are
  // (kTile, kDim) tiles.
  __device__ static void MultiplyRows(const Number* a, const Number* b, Number factor, Number* scores) {
    Number sums[kRows][kRows] = {};
#pragma unroll 4
    for (int d = 0; d < kDim; ++d) {
      Number from_a[kRows], from_b[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        from_a[i] = a[Row(i) * kStride + d];
        from_b[i] = b[Col(i) * kStride + d];
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kRows; ++j) sums[i][j] += from_a[i] * from_b[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kRows; ++j) scores[Row(i) * kScoreStride + Col(j)] = sums[i][j] * factor;
    }
  }

  // Holds, in registers, this thread's elements of a (kTile, kDim) matrix: the sum of one or more products of
  // two tiles.
  struct Sums {
    Number at[kRows][kCols] = {};

    // Adds, to the array `at`, this thread's elements of the matrix product p x or, if kTransposed, p^T x. p
    // is a (kTile, kTile) tile, and x a (kTile, kDim) tile.
    template <bool kTransposed>
    __device__ void AddProduct(const Number* p, const Number* x) {
#pragma unroll 4
      for (int k = 0; k < kTile; ++k) {
        Number from_p[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          from_p[i] = kTransposed ? p[k * kScoreStride + Row(i)] : p[Row(i) * kScoreStride + k];
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          const Number from_x = x[k * kStride + Col(j)];
#pragma unroll
          for (int i = 0; i < kRows; ++i) at[i][j] += from_p[i] * from_x;
        }
      }
    }

    template <class T>
    __device__ void Store(const HeadShape& shape, const HeadTile& here, Number factor, Destination<T*> out) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int64_t position = here.first + Row(i);
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          if (position >= shape.seq || Col(j) >= shape.head_dim) continue;
          kernels::Store(out.data + here.columns + position * shape.d_model() + Col(j), at[i][j] * factor,
                         out.accumulate);
        }
      }
    }
  };
};

// The threads of a block call LoadTile together, and must synchronise before they read the tile. LoadTile
// copies kTile rows of a head, from position `first` of the sequence on, from the tensor x to `tile` in
// shared memory, and converts the elements to Number. Rows beyond the end of the sequence become zeros.
template <class Tiles, class T>
__device__ void LoadTile(const HeadShape& shape, const T* x, int64_t columns, int64_t first,
                         typename Tiles::Number* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < Tiles::kTile * Tiles::kDim; i += kThreads) {
    const int row = i / Tiles::kDim, col = i % Tiles::kDim;
    const int64_t position = first + row;
    const bool inside = position < shape.seq && col < shape.head_dim;
    tile[row * Tiles::kStride + col] = inside ? Widen(x[columns + position * shape.d_model() + col]) : 0;
  }
}

}  // namespace gradsync::model::kernels
