#ifndef GRADSYNC_DDP_LOW_RANK_H_
#define GRADSYNC_DDP_LOW_RANK_H_

#include <cstdint>

#include "model/autograd.h"

namespace gradsync::ddp {

// A gradient as a matrix G, of its first dimension and all others, on its way through two thin factors, P and
// Q. E holds what has not been sent so far, and is zero at first. If the factors would not be so many times
// smaller, P is the gradient itself, and there is neither Q nor E. The gradient is f32, on the CPU.
class LowRank {
 public:
  // `stream` makes the numbers that Q starts with. Both factors together have less than 1 / min_compression
  // of the gradient's elements, or it is whole.
  LowRank(model::Parameter& param, int64_t rank, double min_compression, uint64_t stream);

  int64_t p_numel() const { return is_whole() ? param_->numel() : rank_ * rows_; }
  int64_t q_numel() const { return is_whole() ? 0 : rank_ * columns_; }
  bool is_whole() const {
    return min_compression_ * static_cast<double>(rank_ * (rows_ + columns_)) >=
           static_cast<double>(param_->numel());
  }
  // Where P and Q live from now on, `offset` elements into these. Q is needed unless is_whole(); then comes
  // Reset().
  void PlaceP(const model::Tensor& storage, int64_t offset);
  void PlaceQ(const model::Tensor& storage, int64_t offset);

  // M = G + E; P = M Q, to be averaged over ranks.
  void MakeP();
  // P = orthonormal(P); Q = M' P, to be averaged over ranks. Bitwise equal P give bitwise equal results.
  void MakeQ();
  // G = P Q'; E = M - G.
  void Finish();

  // Forgets: E = 0, and Q random, the same on all ranks.
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

#endif  // GRADSYNC_DDP_LOW_RANK_H_
