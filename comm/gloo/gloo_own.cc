#include "comm/gloo/gloo_own.h"

#include <gloo/allreduce.h>

#include <array>

#include "comm/queue/chunks.h"
#include "comm/queue/reduction.h"

namespace gradsync::comm {
namespace {

// gloo's options for elements of any size.
struct AllReduceOptions : gloo::AllreduceOptions {
  AllReduceOptions(GlooMesh& mesh, const model::Tensor& tensor) : AllreduceOptions(mesh.context()) {
    impl_.elements = static_cast<size_t>(tensor.numel());
    impl_.elementSize = SizeOf(tensor.dtype());
    impl_.out.push_back(mesh.context()->createUnboundBuffer(tensor.raw_data(), tensor.nbytes()));
  }
};

}  // namespace

void RunOwnAllReduce(GlooMesh& mesh, const Request& request) {
  if (request.bytes() == 0) return;
  AllReduceOptions options(mesh, request.output);
  options.setTag(static_cast<uint32_t>(request.sequence));
  options.setTimeout(mesh.timeout());
  const bool is_mean = request.op == ReduceOp::kMean;
  options.setReduceFunction([&](void* result, const void* a, const void* b, size_t numel) {
    const std::array parts = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    auto* const target = static_cast<std::byte*>(result);
    Reduce(request.dtype(), is_mean ? ReduceOp::kSum : request.op, parts, {&target, 1},
           static_cast<int64_t>(numel));
  });
  mesh.Call([&] { gloo::allreduce(options); });
  if (!is_mean) return;
  const std::array sum = {Bytes(request.output)};
  const std::byte* const part = sum[0];
  Reduce(request.dtype(), ReduceOp::kMean, {&part, 1}, sum, request.output.numel(), mesh.size());
}

}  // namespace gradsync::comm
