#pragma once

#include <cstdint>

#include "model/autograd.h"

namespace gradsync::ddp {

// A gradient as a matrix G (first dimension x all others), sent as two thin factors, P and Q. E is the error
// that has not been sent so far, zero at first. If the factors would not be `min_compression` times smaller,
// P is the gradient itself, and there is neither Q nor E. The gradient is f32, on the CPU.
class LowRank {
 public:
  // `stream`: the random stream of the initial Q. Both factors together have less than 1 / min_compression of
  // the gradient's elements; otherwise the gradient is sent whole.
  LowRank(model::Parameter& param, int64_t rank, double min_compression, uint64_t stream);

  int64_t p_numel() const { return is_whole() ? param_->numel() : rank_ * rows_; }
  int64_t q_numel() const { return is_whole() ? 0 : rank_ * columns_; }
  bool is_whole() const {
    return min_compression_ * static_cast<double>(rank_ * (rows_ + columns_)) >=
           static_cast<double>(param_->numel());
  }
  // Sets the memory of P and Q: `offset` elements into `storage`. Q is needed unless is_whole(). Call Reset()
  // after PlaceQ.
  void PlaceP(const model::Tensor& storage, int64_t offset);
  void PlaceQ(const model::Tensor& storage, int64_t offset);

  // M = G + E; P = M Q, to be averaged over ranks.
  void MakeP();
  // P = orthonormal(P); Q = M' P, to be averaged over ranks. Bitwise equal P give bitwise equal results.
  void MakeQ();
  // G = P Q'; E = M - G.
  void Finish();

  // Sets E to 0 and Q to random numbers that are equal on all ranks.
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
