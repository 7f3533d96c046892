#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Sums a gradient over ranks by sending only rows that may be nonzero, which operations have listed
// (Parameter::touched_rows). Each row is summed in rank order: the result is bitwise equal on all ranks, and
// equals the sum of whole gradients in rank order.
//
// A rank's message has room for a number of rows that all ranks have agreed on; every rank gets all messages.
// If a rank has more rows, or its gradient is dense in this step, its message says so, and then all ranks
// send the whole gradient. So no negotiation comes first.
class TouchedRows {
 public:
  // Call this at the end of a step in which gradients were sent whole, on all ranks with the same parameters.
  // Returns the gradients that are cheaper to send by rows: all messages together are smaller than the
  // gradient. (That is less than half of the bytes of an all-reduce.) A message has room for the number of
  // ids, repeated ones included, of rank 0, which depends only on the shape of its batch. Gradients are on
  // the CPU: on CUDA the host would have to wait for the ids. One broadcast; throws CollectiveError.
  static std::vector<TouchedRows> Agree(std::span<model::Parameter* const> params, comm::ProcessGroup& group);

  model::Parameter* param() const { return param_; }
  // The bytes of all ranks' messages.
  size_t bytes() const { return everyones_.nbytes(); }

  // Call these in each step, on all ranks:
  //
  // Before forward, when the gradient has its memory, which is the same in each step: zeroes it, so that
  // backward adds. It zeroes only rows of the last sum, so no other code may write to other rows.
  void Begin();
  // When the gradient is ready.
  comm::Work Send();
  // When this work is done: the gradient becomes the sum over ranks. Throws CollectiveError.
  void Finish();

 private:
  TouchedRows(model::Parameter& param, int64_t max_rows, comm::ProcessGroup& group);

  // A message: number of rows, or kWhole; their ids; from the next cache line on, the rows.
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
