#include "ddp/buckets/touched_rows.h"

#include <algorithm>
#include <optional>

#include "ddp/buckets/bucket.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp {
namespace {

using model::DType;
using model::Parameter;
using model::Tensor;

size_t RoundUp(size_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

// Returns the maximum number of rows after a step like the last step; 0 if unknown.
int64_t MaxRows(const Parameter& param) {
  if (param.touched_rows() == nullptr || param.shape().empty()) return 0;
  int64_t num_ids = 0;
  for (const Tensor& ids : *param.touched_rows()) num_ids += ids.numel();
  return std::min(num_ids, param.shape().front());
}

// Returns the touched rows, each once, in ascending order; nullopt if the gradient may have other rows.
std::optional<std::vector<int32_t>> RowsOf(const Parameter& param) {
  if (param.touched_rows() == nullptr) return std::nullopt;
  std::vector<int32_t> rows;
  for (const Tensor& ids : *param.touched_rows()) {
    rows.insert(rows.end(), ids.data<int32_t>(), ids.data<int32_t>() + ids.numel());
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

}  // namespace

std::vector<TouchedRows> TouchedRows::Agree(std::span<Parameter* const> params, comm::ProcessGroup& group) {
  std::vector<TouchedRows> agreed;
  const model::DevicePtr& device = params.front()->device();
  std::vector<int64_t> max_rows;
  for (const Parameter* param : params) max_rows.push_back(MaxRows(*param));
  const Tensor of_rank_0 =
      Tensor::From<int64_t>(device, {std::ssize(max_rows)}, std::span<const int64_t>(max_rows));
  group.Broadcast(of_rank_0, 0).Wait();
  for (size_t i = 0; i < params.size(); ++i) {
    Parameter& param = *params[i];
    const int64_t rows = of_rank_0.data<int64_t>()[i];
    if (rows == 0) continue;
    const auto num_rows = static_cast<size_t>(group.size() * rows);
    const size_t row_bytes = param.grad().nbytes() / static_cast<size_t>(param.shape().front());
    if (num_rows * (sizeof(int32_t) + row_bytes) >= param.grad().nbytes()) continue;
    agreed.push_back(TouchedRows(param, rows, group));
  }
  return agreed;
}

TouchedRows::TouchedRows(Parameter& param, int64_t max_rows, comm::ProcessGroup& group)
    : param_(&param),
      group_(&group),
      max_rows_(max_rows),
      row_shape_(param.shape().begin() + 1, param.shape().end()),
      head_bytes_(RoundUp(sizeof(int32_t) * static_cast<size_t>(1 + max_rows))),
      message_bytes_(RoundUp(head_bytes_ + static_cast<size_t>(max_rows * model::Numel(row_shape_)) *
                                               SizeOf(param.dtype()))),
      own_(group.Allocate(param.device(), {static_cast<int64_t>(message_bytes_)}, DType::kU8)),
      everyones_(Tensor::Empty(param.device(), {group.size() * own_.numel()}, DType::kU8)) {
  own_.Zero();
}

void TouchedRows::Begin() {
  if (grad_is_zero_outside_received_rows_) {
    for (int rank = 0; rank < group_->size(); ++rank) {
      for (const int32_t id : IdsFrom(rank)) GradRow(id).Zero();
    }
  } else {
    param_->grad().Zero();
  }
  grad_is_zero_outside_received_rows_ = false;
  param_->MarkZeroGrad();
}

comm::Work TouchedRows::Send() {
  const std::optional<std::vector<int32_t>> rows = RowsOf(*param_);
  int32_t* const head = Head(own_, 0);
  if (rows && std::ssize(*rows) <= max_rows_) {
    head[0] = static_cast<int32_t>(rows->size());
    std::ranges::copy(*rows, head + 1);
    for (size_t i = 0; i < rows->size(); ++i) RowOf(own_, 0, i).CopyFrom(GradRow((*rows)[i]));
  } else {
    head[0] = kWhole;
  }
  return group_->AllGather(own_, everyones_);
}

void TouchedRows::Finish() {
  for (int rank = 0; rank < group_->size(); ++rank) {
    if (Head(everyones_, rank)[0] == kWhole)
      return group_->AllReduce(param_->grad(), comm::ReduceOp::kSum).Wait();
  }
  for (const int32_t id : IdsFrom(group_->rank())) GradRow(id).Zero();
  for (int rank = 0; rank < group_->size(); ++rank) {
    const std::span<const int32_t> ids = IdsFrom(rank);
    for (size_t i = 0; i < ids.size(); ++i) AddTo(RowOf(everyones_, rank, i), GradRow(ids[i]));
  }
  grad_is_zero_outside_received_rows_ = true;
}

int32_t* TouchedRows::Head(const Tensor& messages, int rank) const {
  return messages.SliceBytes(static_cast<size_t>(rank) * message_bytes_, {1 + max_rows_}, DType::kI32)
      .data<int32_t>();
}

std::span<const int32_t> TouchedRows::IdsFrom(int rank) const {
  const int32_t* const head = Head(everyones_, rank);
  return {head + 1, static_cast<size_t>(head[0])};
}

Tensor TouchedRows::RowOf(const Tensor& messages, int rank, size_t i) const {
  const size_t row_bytes = static_cast<size_t>(model::Numel(row_shape_)) * SizeOf(param_->dtype());
  return messages.SliceBytes(static_cast<size_t>(rank) * message_bytes_ + head_bytes_ + i * row_bytes,
                             row_shape_, param_->dtype());
}

Tensor TouchedRows::GradRow(int32_t id) const {
  return param_->grad().Slice(id * model::Numel(row_shape_), row_shape_);
}

}  // namespace gradsync::ddp
