#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/process_group.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// Sums an embedding's gradient over ranks, but sends only the rows that operations have listed as touched
// (Parameter::touched_rows); all other rows of the gradient are zero. The ranks' rows are added in rank
// order, so the result is bitwise equal on all ranks. An all-reduce of whole gradients that adds in rank
// order gives the same result as a TouchedRows object.
//
// Once, at the end of a training step, all ranks call the function Agree. Agree sets the maximum number of
// gradient rows in one rank's message. In each step after the call of Agree, every rank sends one message
// with its touched rows, and receives the messages of all ranks. If a rank has touched more rows than the
// maximum that Agree set, or its gradient is dense, its message has a flag instead of rows. If any message
// has the flag, the ranks all-reduce the whole gradient. All messages have room for the maximum number of
// rows, so they have one size.
class TouchedRows {
 public:
  // Returns a TouchedRows object for each parameter of `params` whose gradient is cheaper to send by rows.
  // Sending rows is cheaper if `max_rows` rows from each rank, with their indices, have together fewer bytes
  // than the whole gradient. `max_rows` is the maximum number of rows in one rank's message: the number of
  // row indices, including repeated ones, that operations on rank 0 listed for the parameter in this step
  // (Parameter::touched_rows). If the embedding has fewer rows than this number, `max_rows` is the
  // embedding's number of rows. All ranks must call Agree at the end of the same step. The gradients of
  // `params` must be on the CPU. Throws CollectiveError if the broadcast of `max_rows` from rank 0 fails.
  static std::vector<TouchedRows> Agree(std::span<model::Parameter* const> params, comm::ProcessGroup& group);

  model::Parameter* param() const { return param_; }
  // Returns the size in bytes of the messages of all ranks together, which each rank receives in every step.
  size_t bytes() const { return everyones_.nbytes(); }

  // Call these in each step, on all ranks:
  //
  // Begin zeroes the gradient of param(), so that backward can add to it. Call Begin before forward. The
  // gradient must stay at one address in all steps, and only backward and the TouchedRows object may write to
  // it. If the ranks sent rows in the step before, Begin zeroes only the rows that any rank sent.
  void Begin();
  // Starts an all-gather of the messages of all ranks, and does not wait for it. A rank's message has the
  // rows of the gradient that were touched in this step, or says that the whole gradient must be sent. Call
  // Send when backward has completed the gradient.
  comm::Work Send();
  // Finish adds up the rows in the messages of all ranks, and writes the sums to the parameter's gradient.
  // Call Finish when the all-gather that Send started is done. If any rank's message says that the whole
  // gradient must be sent, Finish all-reduces it, and throws CollectiveError if the all-reduce fails.
  void Finish();

 private:
  TouchedRows(model::Parameter& param, int64_t max_rows, comm::ProcessGroup& group);

  // A message begins with the number of its rows, or with kWhole if all ranks must send the whole gradient.
  // Ranks ignore everything in a message after kWhole. The number of rows is followed by room for max_rows
  // row numbers; a message with fewer rows leaves the rest of this room unused. Then come the elements of
  // these rows, from the next start of a cache line on.
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
