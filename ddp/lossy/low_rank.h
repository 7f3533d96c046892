#pragma once

#include <cstdint>

#include "model/autograd.h"

namespace gradsync::ddp {

// Compresses a gradient as PowerSGD does: a matrix G (first dimension x all others) is sent as two thin
// factors, P and Q. E is the error feedback: the part of this rank's earlier gradients that P and Q did not
// carry, which MakeP adds to G. E is zero at first. The factors P and Q are sent only if `min_compression`
// times their number of elements is below the gradient's number of elements. Otherwise is_whole() is true:
// MakeP copies the whole gradient to P, and Finish copies the averaged P back. The gradient must always be
// f32, on the CPU.
class LowRank {
 public:
  // `rank` is the number of columns of P and Q. `stream` selects the random numbers of the first Q. Throws
  // InvalidInput if min_compression is below 1.
  LowRank(model::Parameter& param, int64_t rank, double min_compression, uint64_t stream);

  int64_t p_numel() const { return is_whole() ? param_->numel() : rank_ * rows_; }
  int64_t q_numel() const { return is_whole() ? 0 : rank_ * columns_; }
  bool is_whole() const {
    return min_compression_ * static_cast<double>(rank_ * (rows_ + columns_)) >=
           static_cast<double>(param_->numel());
  }
  // The ranks send the matrices P and Q, whose product P Q' approximates the gradient. PlaceP makes P, and
  // PlaceQ makes Q, a view of `storage` from element `offset` on. Before the first MakeP, call PlaceP, then
  // PlaceQ, and then Reset. If is_whole() is true, do not call PlaceQ.
  void PlaceP(const model::Tensor& storage, int64_t offset);
  void PlaceQ(const model::Tensor& storage, int64_t offset);

  // Computes the matrix M = G + E from the gradient G and the unsent part E, and the factor P = M Q. The
  // caller then averages P over ranks.
  void MakeP();
  // Orthonormalises the columns of the averaged factor P, and then computes the factor Q = M' P. M' is the
  // transpose of the matrix M that MakeP has computed. The caller then averages Q over ranks. If P is bitwise
  // equal on all ranks, the orthonormalised P is also bitwise equal.
  void MakeQ();
  // Computes the new gradient G = P Q' from the averaged low-rank factors P and Q (Q' is the transpose of Q).
  // Also computes the unsent part E = M - G, where M is the matrix that MakeP has computed.
  void Finish();

  // Sets the unsent gradient E to 0, and the low-rank factor Q to random numbers, equal on all ranks.
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
