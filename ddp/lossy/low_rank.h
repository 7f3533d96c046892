#pragma once

#include <cstdint>

#include "model/autograd.h"

namespace gradsync::ddp {

// Compresses a gradient, the matrix G, as PowerSGD does: ranks send two thin matrices P and Q instead. The
// error E is the part of earlier gradients that P and Q did not carry, and is added to the next gradient. The
// gradient must be f32, on the CPU. If is_whole() is true, P is the whole gradient, and Q and E do not exist.
// If is_whole() is true, MakeP copies the gradient to P, MakeQ does nothing, and Finish copies the averaged P
// to the gradient.
class LowRank {
 public:
  // `rank` is the number of columns of P and of Q; `stream` selects the random numbers in the first Q matrix.
  // Throws InvalidInput if min_compression is below 1.
  LowRank(model::Parameter& param, int64_t rank, double min_compression, uint64_t stream);

  int64_t p_numel() const { return is_whole() ? param_->numel() : rank_ * rows_; }
  int64_t q_numel() const { return is_whole() ? 0 : rank_ * columns_; }
  // Returns whether the gradient has at most min_compression times as many elements as P and Q together. If
  // is_whole() returns true, the ranks send the whole gradient.
  bool is_whole() const {
    return min_compression_ * static_cast<double>(rank_ * (rows_ + columns_)) >=
           static_cast<double>(param_->numel());
  }
  // PlaceP and PlaceQ make the matrix P or Q a view of `storage` from element `offset` on. Before the first
  // MakeP, call PlaceP, then PlaceQ, then Reset; leave out PlaceQ if is_whole() is true.
  void PlaceP(const model::Tensor& storage, int64_t offset);
  void PlaceQ(const model::Tensor& storage, int64_t offset);

  // Computes M = G + E from the gradient G and the error E of earlier gradients. MakeP also computes P = M Q,
  // where Q is the averaged Q of the last step, or random after Reset. Before MakeQ, the caller must replace
  // P by its mean over ranks.
  void MakeP();
  // Orthonormalises the columns of the averaged P, and then computes Q = M' P, where M' is the transposed sum
  // of gradient and error. Unless is_whole() is true, the caller must replace Q by its mean over ranks before
  // Finish.
  void MakeQ();
  // Replaces the gradient by the product P Q' (Q' is the averaged Q, transposed). The new error E is the old
  // gradient plus the old error, minus this product.
  void Finish();

  // Sets the error E to 0, and the matrix Q to random numbers, which are equal on all ranks with the same
  // `stream`.
  void Reset();

  const model::Tensor& error() const { return error_; }
  const model::Tensor& q() const { return q_; }

 private:
  model::Parameter* param_;
  int64_t rank_, rows_, columns_;
  double min_compression_;
  uint64_t stream_;
  model::Tensor error_;  // (rows, columns): E, and M from MakeP to Finish
  model::Tensor p_, q_;  // transposed: (rank, rows), (rank, columns)
};

}  // namespace gradsync::ddp
