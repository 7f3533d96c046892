#include "comm/queue/request.h"

#include <algorithm>
#include <utility>

#include "model/error.h"

namespace gradsync::comm {
namespace {

using model::DType;
using model::Tensor;

void CheckTensor(const RequestLimits& limits, Collective collective, std::string_view role,
                 const Tensor& tensor) {
  Require(tensor.defined(), Name(collective), ": ", role, " is undefined");
  const std::string device = tensor.device()->name();
  Require(device == limits.device, Name(collective), ": ", role, " is on ", device, ", expected ",
          limits.device);
}

void CheckReduction(Collective collective, DType dtype, ReduceOp op) {
  const bool is_float = dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
  Require(op != ReduceOp::kMean || is_float, Name(collective), ": mean of ", Name(dtype),
          ", expected f32, f64 or bf16");
}

// One tensor holds a part for each rank; the other is one such part.
void CheckParts(const RequestLimits& limits, Collective collective, std::string_view whole_role,
                const Tensor& whole, std::string_view part_role, const Tensor& part) {
  const int size = limits.size;
  CheckTensor(limits, collective, whole_role, whole);
  CheckTensor(limits, collective, part_role, part);
  Require(whole.dtype() == part.dtype(), Name(collective), ": ", whole_role, " is ", Name(whole.dtype()),
          " but ", part_role, " is ", Name(part.dtype()));
  Require(whole.numel() == part.numel() * size, Name(collective), ": ", whole_role, " has ", whole.numel(),
          " elements, expected ", part.numel() * size, ": the ", part.numel(), " of ", part_role,
          " for each of ", size, " ranks");
}

}  // namespace

int64_t Request::bytes() const {
  if (!output.defined()) return 0;
  return static_cast<int64_t>(std::max(input.nbytes(), output.nbytes()));
}

void CheckOptions(std::string_view backend, const World& world, std::chrono::milliseconds timeout) {
  Require(world.size >= 1 && world.rank >= 0 && world.rank < world.size, backend, ": rank ", world.rank,
          " of a world of ", world.size);
  Require(timeout.count() >= 1, backend, ": timeout is ", timeout.count(), " ms, expected at least 1");
}

Request AllReduceRequest(const RequestLimits& limits, Tensor tensor, ReduceOp op) {
  CheckTensor(limits, Collective::kAllReduce, "tensor", tensor);
  CheckReduction(Collective::kAllReduce, tensor.dtype(), op);
  return {.collective = Collective::kAllReduce, .op = op, .input = tensor, .output = tensor};
}

Request BroadcastRequest(const RequestLimits& limits, Tensor tensor, int root) {
  CheckTensor(limits, Collective::kBroadcast, "tensor", tensor);
  Require(root >= 0 && root < limits.size, "broadcast: root is ", root, ", expected a rank below ",
          limits.size);
  return {.collective = Collective::kBroadcast, .root = root, .input = tensor, .output = tensor};
}

Request ReduceScatterRequest(const RequestLimits& limits, Tensor input, Tensor output, ReduceOp op) {
  CheckParts(limits, Collective::kReduceScatter, "input", input, "output", output);
  CheckReduction(Collective::kReduceScatter, input.dtype(), op);
  return {.collective = Collective::kReduceScatter,
          .op = op,
          .input = std::move(input),
          .output = std::move(output)};
}

Request AllGatherRequest(const RequestLimits& limits, Tensor input, Tensor output) {
  CheckParts(limits, Collective::kAllGather, "output", output, "input", input);
  return {.collective = Collective::kAllGather, .input = std::move(input), .output = std::move(output)};
}

Signature::Signature(const Request& request)
    : sequence(request.sequence),
      bytes(request.bytes()),
      collective(request.collective),
      op(request.op),
      dtype(request.dtype()),
      root(request.root) {}

Signature::Signature(const Numbers& numbers)
    : sequence(numbers[0]),
      bytes(numbers[1]),
      collective(static_cast<Collective>(numbers[2])),
      op(static_cast<ReduceOp>(numbers[3])),
      dtype(static_cast<DType>(numbers[4])),
      root(static_cast<int32_t>(numbers[5])) {}

Signature::Numbers Signature::ToNumbers() const {
  return {sequence,
          bytes,
          static_cast<int64_t>(collective),
          static_cast<int64_t>(op),
          static_cast<int64_t>(dtype),
          root};
}

std::string ToString(const Signature& signature) {
  const Collective collective = signature.collective;
  if (collective == Collective::kBarrier) return "barrier";
  std::string text = Join(Name(collective), " of ", signature.bytes, " bytes ", Name(signature.dtype));
  if (collective == Collective::kAllReduce || collective == Collective::kReduceScatter) {
    text += Join(" (", Name(signature.op), ")");
  } else if (collective == Collective::kBroadcast) {
    text += Join(" (root ", signature.root, ")");
  }
  return text;
}

std::string Mismatch(int rank, const Signature& signature, int other_rank, const Signature& other) {
  std::string text = Join("rank ", rank, " issues ", ToString(signature), " where rank ", other_rank,
                          " issues ", ToString(other), " (#", other.sequence);
  if (signature.sequence != other.sequence) text += Join(" against #", signature.sequence);
  return text + ")";
}

std::string Failure(int rank, const Signature& signature, std::string_view backend, int64_t elapsed_ns,
                    std::string_view cause) {
  return Join("rank ", rank, ": ", Name(signature.collective), " #", signature.sequence, " of ",
              signature.bytes, " bytes (", backend, ") failed after ",
              Seconds(std::chrono::nanoseconds(elapsed_ns)), ": ", cause);
}

}  // namespace gradsync::comm
