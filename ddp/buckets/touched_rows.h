#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Sums the gradient of an embedding over ranks, but sends only rows that may be nonzero
// (Parameter::touched_rows). Each rank sends one message with its rows, and receives the messages of all
// ranks. Rows are added in rank order, so all ranks get bitwise equal sums. If the rows of any rank are
// unknown or do not fit into a message, the ranks all-reduce the whole gradient.
class TouchedRows {
 public:
  // Returns a TouchedRows object for each parameter whose gradient has more bytes than group.size() *
  // `max_rows` rows and as many i32 indices. `max_rows` is the number of indices in Parameter::touched_rows
  // on rank 0, repetitions included, but at most the gradient's number of rows. A parameter gets no
  // TouchedRows object if it is a scalar, or if its Parameter::touched_rows on rank 0 is null or has no
  // indices. All ranks must call Agree at the end of the same training step. Gradients must be on the CPU.
  // Throws CollectiveError if the ranks cannot communicate.
  static std::vector<TouchedRows> Agree(std::span<model::Parameter* const> params, comm::ProcessGroup& group);

  model::Parameter* param() const { return param_; }
  // Returns the size in bytes of the all-gather's output: the messages of all ranks, including this rank's
  // message.
  size_t bytes() const { return everyones_.nbytes(); }

  // Call Begin, Send and Finish in each training step, on all ranks.
  //
  // Begin zeroes the gradient of param(). Call Begin before the forward pass. The gradient must stay at one
  // address in all steps. Only backward and the TouchedRows object may write to the gradient.
  void Begin();
  // Starts an all-gather of the ranks' messages, and returns without waiting. Call Send when backward has
  // computed the gradient.
  comm::Work Send();
  // Replaces the gradient of param() by its sum over all ranks. Call Finish when the all-gather of Send has
  // ended. If the rows of any rank were unknown or did not fit into its message, Finish all-reduces the whole
  // gradient. Throws CollectiveError if this all-reduce fails.
  void Finish();

 private:
  TouchedRows(model::Parameter& param, int64_t max_rows, comm::ProcessGroup& group);

  // A message has the number of its rows, room for `max_rows` row indices, and the elements of the rows. The
  // number kWhole instead of the number of rows means that all ranks must all-reduce the whole gradient.
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
