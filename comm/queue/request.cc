#include "comm/queue/request.h"

#include <vector>

#include "comm/queue/chunks.h"
#include "comm/queue/reduction.h"
#include "model/base/error.h"

namespace gradsync::comm {

void CheckOptions(std::string_view backend, const GroupOptions& options) {
  const World& world = options.world;
  Require(world.size >= 1 && world.rank >= 0 && world.rank < world.size, backend, ": rank ", world.rank,
          " of a world of ", world.size);
  Require(options.timeout.count() >= 1, backend, ": timeout is ", options.timeout.count(),
          " ms, expected at least 1");
  Require(options.num_threads >= 1, backend, ": ", options.num_threads,
          " communication threads, expected at least 1");
}

// Copies with the device's Copy, because a collective does not count a write (Tensor::CountWrite).
void RunAlone(const Request& request) {
  const model::Tensor& output = request.output;
  if (output.defined()) output.device()->Copy(output.raw_data(), request.input.raw_data(), output.nbytes());
}

void RunFromInputs(const Request& request, int rank, std::span<std::byte* const> inputs) {
  std::byte* const output = Bytes(request.output);
  const size_t input_bytes = request.input.nbytes();
  const bool scatter = request.collective == Collective::kReduceScatter;
  std::vector<const std::byte*> parts;
  switch (request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      for (const std::byte* const input : inputs)
        parts.push_back(input + (scatter ? static_cast<size_t>(rank) * request.output.nbytes() : 0));
      return Reduce(request.dtype(), request.op, parts, {&output, 1}, request.output.numel());
    case Collective::kAllGather:
      for (size_t i = 0; i < inputs.size(); ++i) CopyBytes(output + i * input_bytes, inputs[i], input_bytes);
      return;
    case Collective::kBroadcast:
      return CopyBytes(output, inputs[static_cast<size_t>(request.root)], input_bytes);
    case Collective::kBarrier:
      return;
  }
}

Signature::Signature(const Request& request)
    : sequence(request.sequence),
      bytes(request.bytes()),
      collective(request.collective),
      op(request.op),
      dtype(request.dtype()),
      root(request.root) {}

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

std::string DescribeMismatch(int rank, const Signature& signature, int other_rank, const Signature& other) {
  std::string text = Join("rank ", rank, " issues ", ToString(signature), " where rank ", other_rank,
                          " issues ", ToString(other), " (#", other.sequence);
  if (signature.sequence != other.sequence) text += Join(" against #", signature.sequence);
  return text + ")";
}

std::string DescribeFailure(int rank, const Signature& signature, std::string_view backend,
                            int64_t elapsed_ns, std::string_view cause) {
  return Join("rank ", rank, ": ", Name(signature.collective), " #", signature.sequence, " of ",
              signature.bytes, " bytes (", backend, ") failed after ",
              Seconds(std::chrono::nanoseconds(elapsed_ns)), ": ", cause);
}

}  // namespace gradsync::comm
