#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::bucketed_async {
namespace {

// During backward, a bucket whose gradients are all ready is copied into a buffer and all-reduced
// asynchronously, in plan order. After backward the strategy waits, and copies the results back.
class BucketedAsync : public OverlappedBuckets {
 public:
  explicit BucketedAsync(const StrategyContext& context)
      : OverlappedBuckets(context.group, PlanReverse(context.params, context.options.bucket_bytes)),
        buffers_(MakeBuffers(plan_, group_)) {}

 private:
  comm::Work Send(size_t i) override {
    CopyIn(plan_.buckets[i], buffers_[i]);
    return group_.AllReduce(buffers_[i], comm::ReduceOp::kMean);
  }
  void Receive(size_t i) override { CopyOut(plan_.buckets[i], buffers_[i]); }

  const std::vector<model::Tensor> buffers_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "bucketed_async",
    .position = 50,
    .summary = "during backward one asynchronous all-reduce for each bucket of copies",
    .overlaps = true,
    .has_buckets = true,
    .gradient_copies = 1,
    .pytorch_twin = "ddp"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return std::make_unique<BucketedAsync>(context);
}

}  // namespace gradsync::ddp::bucketed_async
