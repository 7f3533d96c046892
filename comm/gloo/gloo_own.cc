#include "comm/gloo/gloo_own.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include <array>

#include "comm/queue/chunks.h"
#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

template <class Options>
Options Prepared(GlooMesh& mesh, const Request& request) {
  Options options(mesh.context());
  // A check has the number of the collective that it checks.
  options.setTag(static_cast<uint32_t>(2 * request.sequence + (request.is_check ? 1 : 0)));
  options.setTimeout(mesh.timeout());
  return options;
}

template <class T>
void SetElements(gloo::AllreduceOptions& options, const model::Tensor& tensor) {
  options.setOutput(static_cast<T*>(tensor.raw_data()), static_cast<size_t>(tensor.numel()));
}

void AllReduce(GlooMesh& mesh, const Request& request) {
  auto options = Prepared<gloo::AllreduceOptions>(mesh, request);
  switch (SizeOf(request.dtype())) {
    case 1:
      SetElements<uint8_t>(options, request.output);
      break;
    case 2:
      SetElements<uint16_t>(options, request.output);
      break;
    case 4:
      SetElements<uint32_t>(options, request.output);
      break;
    default:
      SetElements<uint64_t>(options, request.output);
  }
  const bool is_mean = request.op == ReduceOp::kMean;
  options.setReduceFunction([&](void* result, const void* a, const void* b, size_t numel) {
    const std::array parts = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    auto* const target = static_cast<std::byte*>(result);
    Reduce(request.dtype(), is_mean ? ReduceOp::kSum : request.op, parts, {&target, 1},
           static_cast<int64_t>(numel));
  });
  gloo::allreduce(options);
  if (!is_mean) return;
  const std::array sum = {Bytes(request.output)};
  const std::byte* const part = sum[0];
  Reduce(request.dtype(), ReduceOp::kMean, {&part, 1}, sum, request.output.numel(), mesh.size());
}

}  // namespace

bool RunOwnCollective(GlooMesh& mesh, const Request& request) {
  if (request.collective == Collective::kReduceScatter) return false;
  if (request.bytes() == 0 && request.collective != Collective::kBarrier) return true;
  mesh.Call([&] {
    if (request.collective == Collective::kBarrier) {
      auto options = Prepared<gloo::BarrierOptions>(mesh, request);
      gloo::barrier(options);
    } else if (request.collective == Collective::kBroadcast) {
      auto options = Prepared<gloo::BroadcastOptions>(mesh, request);
      options.setRoot(request.root);
      options.setOutput(Bytes(request.output), request.output.nbytes());
      gloo::broadcast(options);
    } else if (request.collective == Collective::kAllGather) {
      auto options = Prepared<gloo::AllgatherOptions>(mesh, request);
      const size_t bytes = request.input.nbytes();
      CopyBytes(Bytes(request.output) + bytes * static_cast<size_t>(mesh.rank()), Bytes(request.input),
                bytes);
      options.setOutput(Bytes(request.output), request.output.nbytes());
      gloo::allgather(options);
    } else {
      AllReduce(mesh, request);
    }
  });
  return true;
}

}  // namespace gradsync::comm
