#include "comm/process_group.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

void CheckReduction(Collective collective, DType dtype, ReduceOp op) {
  const bool is_float = dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
  Require(op != ReduceOp::kMean || is_float, Name(collective), ": mean of ", Name(dtype),
          ", expected f32, f64 or bf16");
}

}  // namespace

std::string_view Name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min"};
  return kNames[static_cast<size_t>(op)];
}

std::string_view Name(Collective collective) {
  constexpr std::string_view kNames[] = {"all_reduce", "broadcast", "reduce_scatter", "all_gather",
                                         "barrier"};
  return kNames[static_cast<size_t>(collective)];
}

int64_t Now() {
  const auto since_epoch = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count();
}

std::string Seconds(std::chrono::nanoseconds duration) {
  return absl::StrFormat("%.1f s", std::chrono::duration<double>(duration).count());
}

int64_t Request::bytes() const {
  if (!output.defined()) return 0;
  return static_cast<int64_t>(std::max(input.nbytes(), output.nbytes()));
}

Work ProcessGroup::AllReduce(Tensor tensor, ReduceOp op, Waits waits) {
  Check(Collective::kAllReduce, "tensor", tensor);
  CheckReduction(Collective::kAllReduce, tensor.dtype(), op);
  return Issue(
      {.collective = Collective::kAllReduce, .op = op, .waits = waits, .input = tensor, .output = tensor});
}

Work ProcessGroup::Broadcast(Tensor tensor, int root, Waits waits) {
  Check(Collective::kBroadcast, "tensor", tensor);
  Require(root >= 0 && root < size_, "broadcast: root is ", root, ", expected a rank below ", size_);
  return Issue({.collective = Collective::kBroadcast,
                .root = root,
                .waits = waits,
                .input = tensor,
                .output = tensor});
}

Work ProcessGroup::ReduceScatter(Tensor input, Tensor output, ReduceOp op) {
  CheckParts(Collective::kReduceScatter, "input", input, "output", output);
  CheckReduction(Collective::kReduceScatter, input.dtype(), op);
  return Issue({.collective = Collective::kReduceScatter,
                .op = op,
                .input = std::move(input),
                .output = std::move(output)});
}

Work ProcessGroup::AllGather(Tensor input, Tensor output) {
  CheckParts(Collective::kAllGather, "output", output, "input", input);
  return Issue(
      {.collective = Collective::kAllGather, .input = std::move(input), .output = std::move(output)});
}

void ProcessGroup::Check(Collective collective, std::string_view role, const Tensor& tensor) const {
  Require(tensor.defined(), Name(collective), ": ", role, " is undefined");
  const std::string device = tensor.device()->name();
  Require(device == device_name_, Name(collective), ": ", role, " is on ", device, ", expected ",
          device_name_);
}

// One tensor has a part for each rank; the other is one such part.
void ProcessGroup::CheckParts(Collective collective, std::string_view whole_role, const Tensor& whole,
                              std::string_view part_role, const Tensor& part) const {
  Check(collective, whole_role, whole);
  Check(collective, part_role, part);
  Require(whole.dtype() == part.dtype(), Name(collective), ": ", whole_role, " is ", Name(whole.dtype()),
          " but ", part_role, " is ", Name(part.dtype()));
  Require(whole.numel() == part.numel() * size_, Name(collective), ": ", whole_role, " has ", whole.numel(),
          " elements, expected ", part.numel() * size_, ": the ", part.numel(), " of ", part_role,
          " for each of ", size_, " ranks");
}

}  // namespace gradsync::comm
