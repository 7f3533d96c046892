#include "comm/queue/request.h"

#include "model/error.h"

namespace gradsync::comm {

void CheckOptions(std::string_view backend, const World& world, std::chrono::milliseconds timeout) {
  Require(world.size >= 1 && world.rank >= 0 && world.rank < world.size, backend, ": rank ", world.rank,
          " of a world of ", world.size);
  Require(timeout.count() >= 1, backend, ": timeout is ", timeout.count(), " ms, expected at least 1");
}

void RunAlone(const Request& request) {
  if (request.output.defined()) request.output.CopyFrom(request.input.View(request.output.shape()));
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
