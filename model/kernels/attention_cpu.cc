#include <algorithm>
#include <cmath>

#include "model/kernels/attention.h"
#include "model/kernels/eigen.h"
#include "model/kernels/gemm.h"
#include "model/kernels/parallel.h"
#include "model/kernels/scratch.h"

namespace gradsync::model::kernels::cpu {
namespace {

// Query rows of one block. Enough for a GEMM to reach its speed; more would waste more on keys after a row.
constexpr int64_t kBlockRows = 64;

// Query rows `row` to `row + rows` of a head, with the keys that at least one of them sees.
struct Block {
  int64_t row;
  int64_t rows;

  int64_t keys() const { return row + rows; }
};

// Where one head of one sequence begins in a (batch, seq, d_model) array, and in a (batch, num_heads, seq)
// one.
struct Head {
  Head(const AttentionShape& shape, int64_t index)
      : columns(index / shape.num_heads * shape.seq * shape.d_model() +
                index % shape.num_heads * shape.head_dim),
        positions(index * shape.seq) {}

  int64_t columns;
  int64_t positions;
};

// Calls fn(head, scratch) for every head of the batch, shared out to the threads. scratch has room for
// `scratch_numel` elements and begins at a cache line: a sum's order depends on its operands' alignment, and
// is not to depend on the thread.
template <class T, class Fn>
void ForHeads(Device& device, const AttentionShape& shape, int64_t scratch_numel, const Fn& fn) {
  const int64_t heads = shape.batch * shape.num_heads;
  const int64_t threads = device.num_threads();
  constexpr int64_t kLineNumel = 64 / sizeof(T);
  scratch_numel = (scratch_numel + kLineNumel - 1) / kLineNumel * kLineNumel;
  const Scratch<T> scratch(device, threads * scratch_numel);
  ParallelFor(
      device, threads,
      [&](int64_t begin, int64_t end) {
        for (int64_t thread = begin; thread < end; ++thread) {
          T* own = scratch.data() + thread * scratch_numel;
          for (int64_t i = heads * thread / threads; i < heads * (thread + 1) / threads; ++i) {
            fn(Head(shape, i), own);
          }
        }
      },
      1);
}

// The scale of the products q k^T.
template <class T>
T ScoreScale(const AttentionShape& shape) {
  return T{1} / std::sqrt(static_cast<T>(shape.head_dim));
}

// p (rows, keys) <- exp(p * scale - max), zero where a key comes after its query. The rows' sums are not
// divided out: that is cheaper on the output. Sets each row's log-sum-exp and inverse sum.
template <class T>
void SoftmaxNumerators(const Block& block, T scale, T* p, T* log_sum_exp, T* inverse_sum) {
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = p + i * block.keys();
    const int64_t seen = block.row + i + 1;
    ArrayMap<T> scores(row, seen);
    const T max = scores.maxCoeff() * scale;
    scores = (scores * scale - max).exp();
    const T sum = scores.sum();
    log_sum_exp[i] = max + std::log(sum);
    inverse_sum[i] = T{1} / sum;
    std::fill(row + seen, row + block.keys(), T{0});
  }
}

// p (rows, keys) <- exp(p * scale - log_sum_exp), zero where a key comes after its query.
template <class T>
void Probabilities(const Block& block, T scale, const T* log_sum_exp, T* p) {
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = p + i * block.keys();
    const int64_t seen = block.row + i + 1;
    ArrayMap<T> scores(row, seen);
    scores = (scores * scale - log_sum_exp[i]).exp();
    std::fill(row + seen, row + block.keys(), T{0});
  }
}

// ds (rows, keys), holding the gradient of the probabilities p, becomes that of the unscaled scores:
// p * (ds - dout . out) * scale. out and dout are (rows, head_dim) with `stride` elements between rows.
template <class T>
void ScoreGradients(const Block& block, T scale, const T* p, const T* out, const T* dout, int64_t head_dim,
                    int64_t stride, T* ds) {
  for (int64_t i = 0; i < block.rows; ++i) {
    const T dot =
        (ConstArrayMap<T>(out + i * stride, head_dim) * ConstArrayMap<T>(dout + i * stride, head_dim)).sum();
    const int64_t seen = block.row + i + 1;
    ArrayMap<T> row(ds + i * block.keys(), seen);
    row = ConstArrayMap<T>(p + i * block.keys(), seen) * (row - dot) * scale;
    std::fill(ds + i * block.keys() + seen, ds + (i + 1) * block.keys(), T{0});
  }
}

}  // namespace

template <class T>
void CausalAttention(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v, T* out,
                     T* log_sum_exp) {
  const int64_t stride = shape.d_model();
  const int64_t dim = shape.head_dim;
  const int64_t block_rows = std::min(kBlockRows, shape.seq);
  ForHeads<T>(device, shape, block_rows * (shape.seq + 1), [&](const Head& head, T* scratch) {
    T* p = scratch;
    T* inverse_sum = scratch + block_rows * shape.seq;
    for (int64_t row = 0; row < shape.seq; row += kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      const int64_t at = head.columns + row * stride;
      const int64_t keys = block.keys();
      SerialGemm(block.rows, keys, dim, {q + at, stride}, {k + head.columns, stride, true}, p, keys, false);
      SoftmaxNumerators(block, ScoreScale<T>(shape), p, log_sum_exp + head.positions + row, inverse_sum);
      SerialGemm(block.rows, dim, keys, {p, keys}, {v + head.columns, stride}, out + at, stride, false);
      for (int64_t i = 0; i < block.rows; ++i) ArrayMap<T>(out + at + i * stride, dim) *= inverse_sum[i];
    }
  });
}

template <class T>
void CausalAttentionGrad(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v,
                         const T* out, const T* log_sum_exp, const T* dout, Target<T> dq, Target<T> dk,
                         Target<T> dv) {
  const int64_t stride = shape.d_model();
  const int64_t dim = shape.head_dim;
  const T scale = ScoreScale<T>(shape);
  const int64_t matrix_numel = std::min(kBlockRows, shape.seq) * shape.seq;
  ForHeads<T>(device, shape, 2 * matrix_numel, [&](const Head& head, T* scratch) {
    T* p = scratch;
    T* ds = scratch + matrix_numel;
    // From the last block, which sees all keys and so writes all of dk and dv; the others add to them.
    const int64_t last_row = (shape.seq - 1) / kBlockRows * kBlockRows;
    for (int64_t row = last_row; row >= 0; row -= kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      const int64_t at = head.columns + row * stride;
      const int64_t keys = block.keys();
      const bool add = row != last_row;
      SerialGemm(block.rows, keys, dim, {q + at, stride}, {k + head.columns, stride, true}, p, keys, false);
      Probabilities(block, scale, log_sum_exp + head.positions + row, p);
      if (dv.data != nullptr) {
        SerialGemm(keys, dim, block.rows, {p, keys, true}, {dout + at, stride}, dv.data + head.columns,
                   stride, dv.accumulate || add);
      }
      if (dq.data == nullptr && dk.data == nullptr) continue;
      SerialGemm(block.rows, keys, dim, {dout + at, stride}, {v + head.columns, stride, true}, ds, keys,
                 false);
      ScoreGradients(block, scale, p, out + at, dout + at, dim, stride, ds);
      if (dq.data != nullptr) {
        SerialGemm(block.rows, dim, keys, {ds, keys}, {k + head.columns, stride}, dq.data + at, stride,
                   dq.accumulate);
      }
      if (dk.data != nullptr) {
        SerialGemm(keys, dim, block.rows, {ds, keys, true}, {q + at, stride}, dk.data + head.columns, stride,
                   dk.accumulate || add);
      }
    }
  });
}

#define GRADSYNC_INSTANTIATE(T)                                                                           \
  template void CausalAttention<T>(Device&, const AttentionShape&, const T*, const T*, const T*, T*, T*); \
  template void CausalAttentionGrad<T>(Device&, const AttentionShape&, const T*, const T*, const T*,      \
                                       const T*, const T*, const T*, Target<T>, Target<T>, Target<T>);
GRADSYNC_INSTANTIATE(float)
GRADSYNC_INSTANTIATE(double)
#undef GRADSYNC_INSTANTIATE

}  // namespace gradsync::model::kernels::cpu
