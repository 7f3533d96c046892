#ifndef GRADSYNC_DDP_TOUCHED_ROWS_H_
#define GRADSYNC_DDP_TOUCHED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Sums a gradient over ranks by sending only those of its rows that may be other than zero, which the
// operations that computed it have named (Parameter::touched_rows). Each row is summed in rank order: bitwise
// equal on all ranks, and exactly what summing the whole gradients in rank order would give.
//
// A rank's message has room for a number of rows on which all have agreed; every rank gets everyone's. One
// that has more rows than that, or whose gradient is dense this time, says so in its message, whereupon all
// send the whole gradient: there is nothing to negotiate first.
class TouchedRows {
 public:
  // At the end of a step in which gradients were sent whole, on all ranks with the same parameters: those
  // that are better sent like this. A message then has room for as many rows as rank 0 named ids, repeated
  // ones included: that depends on the shape of its batch alone. Better is what makes everyone's messages
  // together smaller than the gradient, which takes less than half of what an all-reduce moves. Gradients are
  // on the CPU: on CUDA the host would have to wait for the ids. One broadcast; throws CollectiveError.
  static std::vector<TouchedRows> Agree(std::span<model::Parameter* const> params, comm::ProcessGroup& group);

  model::Parameter* param() const { return param_; }
  // The bytes of everyone's messages together.
  size_t bytes() const { return everyones_.nbytes(); }

  // Each step, all ranks alike:
  //
  // Before forward, when the gradient has its place, which is the same in each step: makes it zero, so that
  // backward adds. Only rows of the last sum are filled: nobody else may have written to others.
  void Begin();
  // When the gradient is ready.
  comm::Work Send();
  // When that work is done: the gradient becomes the sum over ranks. Throws CollectiveError.
  void Finish();

 private:
  TouchedRows(model::Parameter& param, int64_t max_rows, comm::ProcessGroup& group);

  // A message: how many rows, or kWhole; their ids; from the next cache line on, the rows.
  static constexpr int32_t kWhole = -1;
  int32_t* Head(const model::Tensor& messages, int rank) const;
  std::span<const int32_t> IdsFrom(int rank) const;
  model::Tensor RowOf(const model::Tensor& messages, int rank, size_t i) const;
  model::Tensor GradRow(int32_t id) const;

  model::Parameter* param_;
  comm::ProcessGroup* group_;
  int64_t max_rows_;
  model::Shape row_shape_;
  size_t head_bytes_;
  size_t message_bytes_;
  model::Tensor own_;        // message
  model::Tensor everyones_;  // by rank
  bool grad_is_zero_outside_received_rows_ = false;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_TOUCHED_ROWS_H_
