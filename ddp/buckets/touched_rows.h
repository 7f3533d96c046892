#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Sums a gradient over ranks by sending only rows that may be nonzero, which operations have listed
// (Parameter::touched_rows). Each row is summed in rank order, so the result is bitwise equal on all ranks,
// and equals the sum of whole gradients in rank order.
//
// All ranks agree once on the maximum number of rows in a message, and every rank receives the messages of
// all ranks. If a rank has more rows, or its gradient is dense in this step, its message contains a flag, and
// then all ranks send the whole gradient. So ranks exchange nothing before a message.
class TouchedRows {
 public:
  // Returns the gradients that are cheaper to send by rows, because the messages of all ranks are together
  // smaller than the gradient, which is less than half of the bytes of an all-reduce. Call this at the end of
  // a step in which whole gradients were sent, on all ranks with equal parameters. The maximum number of rows
  // in a message is the number of ids of rank 0, including repeated ids; this number depends only on the
  // shape of the batch. Gradients must be on the CPU, because on CUDA the host would have to wait for the
  // ids. Runs one broadcast; throws CollectiveError.
  static std::vector<TouchedRows> Agree(std::span<model::Parameter* const> params, comm::ProcessGroup& group);

  model::Parameter* param() const { return param_; }
  // Returns the number of bytes of the messages of all ranks.
  size_t bytes() const { return everyones_.nbytes(); }

  // Call these in each step, on all ranks:
  //
  // Zeroes the gradient, so that backward adds to it. Call this before forward, when the gradient has its
  // memory, which must not change between steps. Begin zeroes only the rows of the last sum, so no other code
  // may write to other rows.
  void Begin();
  // Sends this rank's message. Call this when the gradient is ready.
  comm::Work Send();
  // Sets the gradient to the sum over ranks. Call this when the work of Send is done. Throws CollectiveError.
  void Finish();

 private:
  TouchedRows(model::Parameter& param, int64_t max_rows, comm::ProcessGroup& group);

  // A message has the number of rows, or kWhole; the ids of the rows; and, starting at the next cache line,
  // the rows.
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
  model::Tensor own_;        // the message of this rank
  model::Tensor everyones_;  // the messages of all ranks, by rank
  bool grad_is_zero_outside_received_rows_ = false;
};

}  // namespace gradsync::ddp
