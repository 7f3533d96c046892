#include "ddp/buckets/bucket.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::bucketed_sync {
namespace {

// After backward, for one bucket after another: copies gradients in, runs a blocking all-reduce, and copies
// the results back. The number of collectives is between those of naive and flat, and the strategy needs
// memory for one bucket only.
class BucketedSync : public Strategy {
 public:
  explicit BucketedSync(const StrategyContext& context)
      : group_(context.group),
        plan_(PlanReverse(context.params, context.options.bucket_bytes)),
        storage_(MakeLargestBuffer(plan_, group_)) {}

  void Finish() override {
    for (const Bucket& bucket : plan_.buckets) {
      const model::Tensor buffer = storage_.SliceBytes(0, {bucket.numel}, bucket.dtype());
      CopyIn(bucket, buffer);
      group_.AllReduce(buffer, comm::ReduceOp::kMean, comm::Waits::kAtOnce).Wait();
      CopyOut(bucket, buffer);
    }
  }

  BucketPlan plan() const override { return plan_; }

 private:
  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const model::Tensor storage_;  // memory of one bucket after the other
};

}  // namespace

constinit const Traits kTraits = {
    .name = "bucketed_sync",
    .position = 40,
    .summary = "after backward one blocking all-reduce for each bucket of copies",
    .has_buckets = true,
    .gradient_copies = 1};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return std::make_unique<BucketedSync>(context);
}

}  // namespace gradsync::ddp::bucketed_sync
