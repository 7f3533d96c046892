#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "model/kernels/attention.h"
#include "model/kernels/gemm.h"
#include "model/tensor/eigen.h"
#include "model/tensor/parallel.h"
#include "model/tensor/scratch.h"

namespace gradsync::model::kernels {
namespace {

// The number of query rows of one block. It is large enough for a fast GEMM. More rows would compute more
// products with keys after a row.
constexpr int64_t kBlockRows = 64;

// Query rows `row` to `row + rows` of a head, with the keys that at least one of these rows uses.
struct Block {
  int64_t row;
  int64_t rows;

  int64_t keys() const { return row + rows; }
};

// The offset of one head of one sequence in a (batch, seq, d_model) array, and in a (batch, num_heads, seq)
// array.
struct Head {
  Head(const HeadShape& shape, int64_t index)
      : columns(index / shape.num_heads * shape.seq * shape.d_model() +
                index % shape.num_heads * shape.head_dim),
        positions(index * shape.seq) {}

  int64_t columns;
  int64_t positions;
};

// True if T must be converted before computing.
template <class T>
constexpr bool kIsNarrow = !std::is_same_v<T, Wide<T>>;

// Scratch memory for one head.
template <class W>
W* TakeHead(const HeadShape& shape, W*& scratch) {
  W* const room = scratch;
  scratch += shape.seq * PaddedStride<W>(shape.head_dim);
  return room;
}

// The columns of a head of a (batch, seq, d_model) array, copied to scratch memory, because products with
// adjacent rows save more time than the copy costs.
template <class T>
Operand<Wide<T>> CopyHead(const HeadShape& shape, const Head& head, const T* x, Wide<T>*& scratch) {
  const int64_t stride = PaddedStride<Wide<T>>(shape.head_dim);
  Wide<T>* const copy = TakeHead(shape, scratch);
  for (int64_t i = 0; i < shape.seq; ++i)
    CastSpan(x + head.columns + i * shape.d_model(), shape.head_dim, copy + i * stride);
  return {copy, stride};
}

// The columns of a head in place, if T need not be converted.
template <class T>
Operand<Wide<T>> ReadHead(const HeadShape& shape, const Head& head, const T* x, Wide<T>*& scratch) {
  if constexpr (kIsNarrow<T>) {
    return CopyHead(shape, head, x, scratch);
  } else {
    return {x + head.columns, shape.d_model()};
  }
}

// The memory in which the results of a head are computed: the result's own memory, or scratch memory if
// results must be rounded.
template <class T>
struct HeadResult {
  HeadResult(const HeadShape& shape, const Head& head, Destination<T*> place, Wide<T>*& scratch)
      : shape_(shape), place_(place) {
    if (place.data == nullptr) return;
    place_.data += head.columns;
    if constexpr (kIsNarrow<T>) {
      data = TakeHead(shape, scratch);
      stride = PaddedStride<Wide<T>>(shape.head_dim);
    } else {
      data = place_.data;
      stride = shape.d_model();
      accumulate = place.accumulate;
    }
  }

  Wide<T>* row(int64_t i) const { return data + i * stride; }

  // Rounds rows [begin, end) from scratch memory to the result's memory.
  void WriteBack(int64_t begin, int64_t end) const {
    if constexpr (kIsNarrow<T>) {
      if (data == nullptr) return;
      for (int64_t i = begin; i < end; ++i) {
        T* const to = place_.data + i * shape_.d_model();
        if (place_.accumulate) {
          for (int64_t c = 0; c < shape_.head_dim; ++c) row(i)[c] += static_cast<Wide<T>>(to[c]);
        }
        CastSpan(row(i), shape_.head_dim, to);
      }
    }
  }

  Wide<T>* data = nullptr;  // null if the result is not wanted
  int64_t stride = 0;
  bool accumulate = false;

 private:
  const HeadShape& shape_;
  Destination<T*> place_;
};

// Returns the rows of a matrix from `row` on.
template <class T>
Operand<T> From(Operand<T> x, int64_t row) {
  return {x.data + row * x.stride, x.stride};
}

template <class T>
Operand<T> Transposed(Operand<T> x) {
  return {x.data, x.stride, true};
}

// Calls fn(head, scratch) for every head of the batch, divided among the threads. scratch holds `copies`
// heads and `matrices` blocks of scores, and begins at a cache line, because the order of a sum depends on
// the alignment of its operands and must not depend on the thread.
template <class T, class Fn>
void ForHeads(Device& device, const HeadShape& shape, int64_t copies, int64_t matrices, const Fn& fn) {
  const int64_t heads = shape.batch * shape.num_heads;
  const int64_t threads = device.num_threads();
  const int64_t numel = copies * shape.seq * PaddedStride<T>(shape.head_dim) +
                        matrices * std::min(kBlockRows, shape.seq) * PaddedStride<T>(shape.seq);
  const Scratch<T> scratch(device, threads * numel);
  ParallelForEach(device, threads, 1, [&](int64_t thread) {
    for (int64_t i = heads * thread / threads; i < heads * (thread + 1) / threads; ++i)
      fn(Head(shape, i), scratch.data() + thread * numel);
  });
}

// Returns the scale of the products q k^T.
template <class T>
T ScoreScale(const HeadShape& shape) {
  return T{1} / std::sqrt(static_cast<T>(shape.head_dim));
}

// Replaces scores p (rows, keys) by exp(p * scale - max), and by zero if a key comes after its query. Does
// not divide by the sums of rows, because dividing the output is cheaper. Sets the log-sum-exp and the
// inverse sum of each row.
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

// Replaces scores p (rows, keys) by exp(p * scale - log_sum_exp), and by zero if a key comes after its query.
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

// Replaces the gradients ds (rows, keys) of the probabilities p by the gradients of the unscaled scores: p *
// (ds - dout . out) * scale. out and dout are (rows, head_dim).
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
void CausalAttention<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const int64_t dim = shape.head_dim;
  const int64_t p_stride = PaddedStride<W>(shape.seq);
  ForHeads<W>(device, shape, kIsNarrow<T> ? 4 : 2, 1, [&](const Head& head, W* p) {
    std::array<W, kBlockRows> inverse_sum;
    W* copies = p + std::min(kBlockRows, shape.seq) * p_stride;
    const Operand<W> queries = ReadHead(shape, head, q, copies);
    const Operand<W> keys = CopyHead(shape, head, k, copies);
    const Operand<W> values = CopyHead(shape, head, v, copies);
    const HeadResult<T> result(shape, head, {.data = out}, copies);
    for (int64_t row = 0; row < shape.seq; row += kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      SerialGemm(block.rows, block.keys(), dim, From(queries, row), Transposed(keys), p, p_stride, false);
      SoftmaxNumerators(block, ScoreScale<W>(shape), p, p_stride, log_sum_exp + head.positions + row,
                        inverse_sum.data());
      SerialGemm(block.rows, dim, block.keys(), {p, p_stride}, values, result.row(row), result.stride, false);
      for (int64_t i = 0; i < block.rows; ++i) ArrayMap<W>(result.row(row + i), dim) *= inverse_sum[i];
      result.WriteBack(row, row + block.rows);
    }
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttention, OnCpu);

template <class T>
void CausalAttentionGrad<T>::OnCpu(Device& device) const {
  using W = Wide<T>;
  const int64_t dim = shape.head_dim;
  const int64_t p_stride = PaddedStride<W>(shape.seq);
  const W scale = ScoreScale<W>(shape);
  ForHeads<W>(device, shape, kIsNarrow<T> ? 8 : 4, 2, [&](const Head& head, W* p) {
    W* ds = p + std::min(kBlockRows, shape.seq) * p_stride;
    W* copies = ds + std::min(kBlockRows, shape.seq) * p_stride;
    const Operand<W> queries = CopyHead(shape, head, q, copies);
    const Operand<W> keys = CopyHead(shape, head, k, copies);
    const Operand<W> values = CopyHead(shape, head, v, copies);
    const Operand<W> out_grads = CopyHead(shape, head, dout, copies);
    const Operand<W> outs = ReadHead(shape, head, out, copies);
    const HeadResult<T> query_grads(shape, head, dq, copies);
    const HeadResult<T> key_grads(shape, head, dk, copies), value_grads(shape, head, dv, copies);
    // Begins with the last block, which uses all keys and therefore writes all of dk and dv. Other blocks add
    // to dk and dv.
    const int64_t last_row = (shape.seq - 1) / kBlockRows * kBlockRows;
    for (int64_t row = last_row; row >= 0; row -= kBlockRows) {
      const Block block{.row = row, .rows = std::min(kBlockRows, shape.seq - row)};
      const bool add = row != last_row;
      SerialGemm(block.rows, block.keys(), dim, From(queries, row), Transposed(keys), p, p_stride, false);
      Probabilities(block, scale, log_sum_exp + head.positions + row, p, p_stride);
      if (value_grads.data != nullptr) {
        SerialGemm(block.keys(), dim, block.rows, {p, p_stride, true}, From(out_grads, row), value_grads.data,
                   value_grads.stride, value_grads.accumulate || add);
      }
      if (query_grads.data == nullptr && key_grads.data == nullptr) continue;
      SerialGemm(block.rows, block.keys(), dim, From(out_grads, row), Transposed(values), ds, p_stride,
                 false);
      ScoreGradients(block, scale, p, p_stride, From(outs, row), From(out_grads, row), dim, ds);
      if (query_grads.data != nullptr) {
        SerialGemm(block.rows, dim, block.keys(), {ds, p_stride}, keys, query_grads.row(row),
                   query_grads.stride, query_grads.accumulate);
      }
      if (key_grads.data != nullptr) {
        SerialGemm(block.keys(), dim, block.rows, {ds, p_stride, true}, From(queries, row), key_grads.data,
                   key_grads.stride, key_grads.accumulate || add);
      }
    }
    for (const HeadResult<T>* grads : {&query_grads, &key_grads, &value_grads})
      grads->WriteBack(0, shape.seq);
  });
}
GRADSYNC_INSTANTIATE_KERNEL(CausalAttentionGrad, OnCpu);

}  // namespace gradsync::model::kernels
