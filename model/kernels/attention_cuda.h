#ifndef GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
#define GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_

#include <mma.h>

#include <type_traits>

#include "model/kernels/attention.h"
#include "model/kernels/cuda_support.h"

// Tiles of attention in a block's shared memory, and their products. For attention_cuda.cu only.
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

// Tiles of a head, (kTile, kDim), and tiles of scores, (kTile, kTile). kDim is a multiple of 16; columns
// beyond head_dim are zero. T is float or double, which keep all their digits: no tensor cores.
//
// Thread (ty, tx) of 16 x 16 has, of a product, rows ty * kRows + i and columns tx + 16 * j.
template <class T, int kDimOf>
struct Tiles {
  using Number = T;  // that is multiplied
  static constexpr int kDim = kDimOf;
  // f64 needs twice the room. Gradients of 80 columns in tiles of 64 would not fit on GPUs of compute
  // capability 8.6 and 8.9, which have 99 KiB for a block.
  static constexpr int kTile = sizeof(T) == 8 || kDim == 80 ? 32 : 64;
  // One more than a row's elements, so that the elements of a column are in different banks.
  static constexpr int kStride = kDim + 1;
  static constexpr int kScoreStride = kTile + 1, kFactorStride = kScoreStride;
  static constexpr int kBytes = kTile * kStride * sizeof(T);
  static constexpr int kScoresBytes = kTile * kScoreStride * sizeof(T);
  static constexpr int kFactorsBytes = 0;

  static constexpr int kSide = 16;
  static constexpr int kRows = kTile / kSide, kCols = kDim / kSide;
  __device__ static int Row(int i) { return static_cast<int>(threadIdx.x) / kSide * kRows + i; }
  __device__ static int Col(int j) { return static_cast<int>(threadIdx.x) % kSide + kSide * j; }

  // Room for what becomes of scores before it is multiplied: where they are.
  __device__ static T* TakeFactors(SharedMemory& /*memory*/, T* scores) { return scores; }
  __device__ static T Round(T value) { return value; }

  // scores = a b^T factor, of two tiles, rounded once: whoever takes differences of scores takes the same.
  __device__ static void MultiplyRows(const T* a, const T* b, T factor, T* scores) {
    T sums[kRows][kRows] = {};
#pragma unroll 4
    for (int d = 0; d < kDim; ++d) {
      T from_a[kRows], from_b[kRows];
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

  // This thread's part of a tile of results.
  struct Sums {
    T at[kRows][kCols] = {};

    // Adds p x, where p (kTile, kTile) is taken transposed if kTransposed.
    template <bool kTransposed>
    __device__ void AddProduct(const T* p, const T* x) {
#pragma unroll 4
      for (int k = 0; k < kTile; ++k) {
        T from_p[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          from_p[i] = kTransposed ? p[k * kFactorStride + Row(i)] : p[Row(i) * kFactorStride + k];
        }
#pragma unroll
        for (int j = 0; j < kCols; ++j) {
          const T from_x = x[k * kStride + Col(j)];
#pragma unroll
          for (int i = 0; i < kRows; ++i) at[i][j] += from_p[i] * from_x;
        }
      }
    }

    // Writes the sums, times factor, to where they belong. `room` is the block's, for two tiles; all threads
    // have read what is there.
    __device__ void Store(const HeadShape& shape, const HeadTile& here, T factor, void* /*room*/,
                          Destination<T*> out) {
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

// The same in bf16, on tensor cores, with scores and sums in f32. What is multiplied is rounded to bf16.
template <int kDimOf>
struct Tiles<BF16, kDimOf> {
  using Number = __nv_bfloat16;
  static constexpr int kDim = kDimOf;
  static constexpr int kTile = 64;
  // Rows are longer than they need be, so that those of a fragment lie in different banks. All fragments
  // begin at multiples of 32 bytes, as they must.
  static constexpr int kStride = kDim + 8;
  static constexpr int kScoreStride = kTile + 4, kFactorStride = kTile + 8;
  static constexpr int kBytes = kTile * kStride * 2;
  static constexpr int kScoresBytes = kTile * kScoreStride * 4;
  static constexpr int kFactorsBytes = kTile * kFactorStride * 2;
  // A tile of results in f32 takes the room of two tiles when these have been read.
  static constexpr int kResultStride = kDim + 4;
  static_assert(kTile * kResultStride * 4 <= 2 * kBytes);

  static constexpr int kSide = 16;  // of a fragment, the unit of tensor cores
  static constexpr int kWarps = kThreads / 32, kTileSides = kTile / kSide;
  static constexpr int kFragments = kTileSides * kDim / kSide;
  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / 32; }

  using RowMajor = nvcuda::wmma::row_major;
  using ColMajor = nvcuda::wmma::col_major;
  using Sum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, kSide, float>;
  template <class Layout>
  using Left = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kSide, kSide, kSide, Number, Layout>;
  template <class Layout>
  using Right = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kSide, kSide, kSide, Number, Layout>;

  __device__ static Number* TakeFactors(SharedMemory& memory, float* /*scores*/) {
    return memory.Take<Number>(kFactorsBytes);
  }
  __device__ static Number Round(float value) { return __float2bfloat16_rn(value); }

  // sum += left right, of fragments that begin at these addresses.
  template <class LeftLayout, class RightLayout>
  __device__ static void Add(const Number* left_at, int left_stride, const Number* right_at, Sum& sum) {
    Left<LeftLayout> left;
    Right<RightLayout> right;
    nvcuda::wmma::load_matrix_sync(left, left_at, left_stride);
    nvcuda::wmma::load_matrix_sync(right, right_at, kStride);
    nvcuda::wmma::mma_sync(sum, left, right, sum);
  }

  __device__ static void MultiplyRows(const Number* a, const Number* b, float factor, float* scores) {
    for (int i = Warp(); i < kTileSides * kTileSides; i += kWarps) {
      const int row = i / kTileSides * kSide, col = i % kTileSides * kSide;
      Sum sum;
      nvcuda::wmma::fill_fragment(sum, 0.0f);
#pragma unroll
      for (int k = 0; k < kDim; k += kSide) {
        Add<RowMajor, ColMajor>(a + row * kStride + k, kStride, b + col * kStride + k, sum);
      }
      for (float& x : sum.x) x *= factor;
      nvcuda::wmma::store_matrix_sync(scores + row * kScoreStride + col, sum, kScoreStride,
                                      nvcuda::wmma::mem_row_major);
    }
  }

  // This warp's fragments: numbers Warp(), Warp() + kWarps, ..., row by row.
  struct Sums {
    Sum fragments[(kFragments + kWarps - 1) / kWarps];

    __device__ Sums() {
      for (Sum& fragment : fragments) nvcuda::wmma::fill_fragment(fragment, 0.0f);
    }

    // Calls fn(fragment, row, column) with where they are in the tile.
    template <class Fn>
    __device__ void ForEach(const Fn& fn) {
#pragma unroll
      for (int i = 0; i < (kFragments + kWarps - 1) / kWarps; ++i) {
        const int number = Warp() + i * kWarps;
        constexpr int kPerRow = kDim / kSide;
        if (number < kFragments) fn(fragments[i], number / kPerRow * kSide, number % kPerRow * kSide);
      }
    }

    template <bool kTransposed>
    __device__ void AddProduct(const Number* p, const Number* x) {
      using Layout = std::conditional_t<kTransposed, ColMajor, RowMajor>;
      ForEach([&](Sum& sum, int row, int col) {
#pragma unroll
        for (int k = 0; k < kTile; k += kSide) {
          const Number* const left = kTransposed ? p + k * kFactorStride + row : p + row * kFactorStride + k;
          Add<Layout, RowMajor>(left, kFactorStride, x + k * kStride + col, sum);
        }
      });
    }

    __device__ void Store(const HeadShape& shape, const HeadTile& here, float factor, void* room,
                          Destination<BF16*> out) {
      float* const results = static_cast<float*>(room);
      ForEach([&](Sum& sum, int row, int col) {
        nvcuda::wmma::store_matrix_sync(results + row * kResultStride + col, sum, kResultStride,
                                        nvcuda::wmma::mem_row_major);
      });
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kTile * kDim; i += kThreads) {
        const int row = i / kDim, col = i % kDim;
        const int64_t position = here.first + row;
        if (position >= shape.seq || col >= shape.head_dim) continue;
        kernels::Store(out.data + here.columns + position * shape.d_model() + col,
                       results[row * kResultStride + col] * factor, out.accumulate);
      }
    }
  };
};

// Copies positions first to first + kTile of a head to shared memory; zeros beyond the head. Where it can, a
// thread copies 16 bytes at a time.
template <class Tiles, class T>
__device__ void LoadTile(const HeadShape& shape, const T* x, int64_t columns, int64_t first,
                         typename Tiles::Number* tile) {
  constexpr int kVector = std::is_same_v<T, BF16> ? 8 : 1;
  constexpr int kVectors = Tiles::kDim / kVector;
  const bool aligned = kVector > 1 && shape.head_dim % kVector == 0 &&
                       reinterpret_cast<uintptr_t>(x) % (kVector * sizeof(T)) == 0;
  T* const to = reinterpret_cast<T*>(tile);
  for (int i = static_cast<int>(threadIdx.x); i < Tiles::kTile * kVectors; i += kThreads) {
    const int row = i / kVectors, col = i % kVectors * kVector;
    const int64_t position = first + row;
    const T* const from = x + columns + position * shape.d_model() + col;
    T* const place = to + row * Tiles::kStride + col;
    if (aligned && position < shape.seq && col < shape.head_dim) {
      *reinterpret_cast<int4*>(place) = *reinterpret_cast<const int4*>(from);
      continue;
    }
    for (int j = 0; j < kVector; ++j) {
      const bool inside = position < shape.seq && col + j < shape.head_dim;
      place[j] = inside ? from[j] : Narrow<T>(Wide<T>{0});
    }
  }
}

}  // namespace gradsync::model::kernels

#endif  // GRADSYNC_MODEL_KERNELS_ATTENTION_CUDA_H_
