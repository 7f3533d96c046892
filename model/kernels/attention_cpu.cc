#include <algorithm>
#include <array>
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

// A head's columns of a (batch, seq, d_model) array, copied to scratch: rows next to each other are worth
// more to the products than the copy costs.
template <class T>
Operand<T> CopyHead(const AttentionShape& shape, const Head& head, const T* x, T*& scratch) {
  const int64_t stride = PaddedStride<T>(shape.head_dim);
  T* copy = scratch;
  scratch += shape.seq * stride;
  for (int64_t i = 0; i < shape.seq; ++i) {
    std::copy_n(x + head.columns + i * shape.d_model(), shape.head_dim, copy + i * stride);
  }
  return {copy, stride};
}

// The rows of a matrix from `row` on.
template <class T>
Operand<T> From(Operand<T> x, int64_t row) {
  return {x.data + row * x.stride, x.stride};
}

template <class T>
Operand<T> Transposed(Operand<T> x) {
  return {x.data, x.stride, true};
}

// Calls fn(head, scratch) for every head of the batch, shared out to the threads. scratch has room for
// `copies` heads and for `matrices` blocks of scores, and begins at a cache line: a sum's order depends on
// its operands' alignment, and is not to depend on the thread.
template <class T, class Fn>
void ForHeads(Device& device, const AttentionShape& shape, int64_t copies, int64_t matrices, const Fn& fn) {
  const int64_t heads = shape.batch * shape.num_heads;
  const int64_t threads = device.num_threads();
  const int64_t numel = copies * shape.seq * PaddedStride<T>(shape.head_dim) +
                        matrices * std::min(kBlockRows, shape.seq) * PaddedStride<T>(shape.seq);
  const Scratch<T> scratch(device, threads * numel);
  ParallelFor(
      device, threads,
      [&](int64_t begin, int64_t end) {
        for (int64_t thread = begin; thread < end; ++thread) {
          for (int64_t i = heads * thread / threads; i < heads * (thread + 1) / threads; ++i) {
            fn(Head(shape, i), scratch.data() + thread * numel);
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

// Scores p (rows, keys) become exp(p * scale - max), zero where a key comes after its query. The rows' sums
// are not divided out: that is cheaper on the output. Sets each row's log-sum-exp and inverse sum.
template <class T>
void SoftmaxNumerators(const Block& block, T scale, T* p, int64_t p_stride, T* log_sum_exp, T* inverse_sum) {
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = p + i * p_stride;
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

// Scores p (rows, keys) become exp(p * scale - log_sum_exp), zero where a key comes after its query.
template <class T>
void Probabilities(const Block& block, T scale, const T* log_sum_exp, T* p, int64_t p_stride) {
  for (int64_t i = 0; i < block.rows; ++i) {
    T* row = p + i * p_stride;
    const int64_t seen = block.row + i + 1;
    ArrayMap<T> scores(row, seen);
    scores = (scores * scale - log_sum_exp[i]).exp();
    std::fill(row + seen, row + block.keys(), T{0});
  }
}

// The gradients ds (rows, keys) of the probabilities p become those of the unscaled scores:
// p * (ds - dout . out) * scale. out and dout are (rows, head_dim).
template <class T>
void ScoreGradients(const Block& block, T scale, const T* p, int64_t p_stride, Operand<T> out,
                    Operand<T> dout, int64_t head_dim, T* ds) {
  for (int64_t i = 0; i < block.rows; ++i) {
    const ConstArrayMap<T> out_row(out.data + i * out.stride, head_dim);
    const T dot = (out_row * ConstArrayMap<T>(dout.data + i * dout.stride, head_dim)).sum();
    const int64_t seen = block.row + i + 1;
    ArrayMap<T> row(ds + i * p_stride, seen);
    row = ConstArrayMap<T>(p + i * p_stride, seen) * (row - dot) * scale;
    std::fill(ds + i * p_stride + seen, ds + i * p_stride + block.keys(), T{0});
  }
}

}  // namespace

template <class T>
void CausalAttention(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v, T* out,
                     T* log_sum_exp) {
  const int64_t dim = shape.head_dim;
  const int64_t stride = shape.d_model();
  const int64_t p_stride = PaddedStride<T>(shape.seq);
  ForHeads<T>(device, shape, 2, 1, [&](const Head& head, T* p) {
    std::array<T, kBlockRows> inverse_sum;
    T* copies = p + std::min(kBlockRows, shape.seq) * p_stride;
    const Operand<T> keys = CopyHead(shape, head, k, copies);
    const Operand<T> values = CopyHead(shape, head, v, copies);
    for (int64_t row = 0; row < shape.seq; row += kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      SerialGemm(block.rows, block.keys(), dim, {q + head.columns + row * stride, stride}, Transposed(keys),
                 p, p_stride, false);
      SoftmaxNumerators(block, ScoreScale<T>(shape), p, p_stride, log_sum_exp + head.positions + row,
                        inverse_sum.data());
      T* out_rows = out + head.columns + row * stride;
      SerialGemm(block.rows, dim, block.keys(), {p, p_stride}, values, out_rows, stride, false);
      for (int64_t i = 0; i < block.rows; ++i) ArrayMap<T>(out_rows + i * stride, dim) *= inverse_sum[i];
    }
  });
}

template <class T>
void CausalAttentionGrad(Device& device, const AttentionShape& shape, const T* q, const T* k, const T* v,
                         const T* out, const T* log_sum_exp, const T* dout, Target<T> dq, Target<T> dk,
                         Target<T> dv) {
  const int64_t dim = shape.head_dim;
  const int64_t stride = shape.d_model();
  const int64_t p_stride = PaddedStride<T>(shape.seq);
  const T scale = ScoreScale<T>(shape);
  ForHeads<T>(device, shape, 4, 2, [&](const Head& head, T* p) {
    T* ds = p + std::min(kBlockRows, shape.seq) * p_stride;
    T* copies = ds + std::min(kBlockRows, shape.seq) * p_stride;
    const Operand<T> queries = CopyHead(shape, head, q, copies);
    const Operand<T> keys = CopyHead(shape, head, k, copies);
    const Operand<T> values = CopyHead(shape, head, v, copies);
    const Operand<T> out_grads = CopyHead(shape, head, dout, copies);
    // From the last block, which sees all keys and so writes all of dk and dv; the others add to them.
    const int64_t last_row = (shape.seq - 1) / kBlockRows * kBlockRows;
    for (int64_t row = last_row; row >= 0; row -= kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      const bool add = row != last_row;
      SerialGemm(block.rows, block.keys(), dim, From(queries, row), Transposed(keys), p, p_stride, false);
      Probabilities(block, scale, log_sum_exp + head.positions + row, p, p_stride);
      if (dv.data != nullptr) {
        SerialGemm(block.keys(), dim, block.rows, {p, p_stride, true}, From(out_grads, row),
                   dv.data + head.columns, stride, dv.accumulate || add);
      }
      if (dq.data == nullptr && dk.data == nullptr) continue;
      SerialGemm(block.rows, block.keys(), dim, From(out_grads, row), Transposed(values), ds, p_stride,
                 false);
      ScoreGradients(block, scale, p, p_stride, {out + head.columns + row * stride, stride},
                     From(out_grads, row), dim, ds);
      if (dq.data != nullptr) {
        SerialGemm(block.rows, dim, block.keys(), {ds, p_stride}, keys, dq.data + head.columns + row * stride,
                   stride, dq.accumulate);
      }
      if (dk.data != nullptr) {
        SerialGemm(block.keys(), dim, block.rows, {ds, p_stride, true}, From(queries, row),
                   dk.data + head.columns, stride, dk.accumulate || add);
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
