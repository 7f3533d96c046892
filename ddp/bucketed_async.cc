#include "ddp/strategies.h"

namespace gradsync::ddp::bucketed_async {
namespace {

// During backward, a bucket whose gradients are all ready is copied together and all-reduced asynchronously,
// in plan order. Afterwards: wait, copy back.
class BucketedAsync : public Strategy {
 public:
  explicit BucketedAsync(const StrategyContext& context)
      : group_(context.group),
        plan_(PlanReverse(context.params, context.options.bucket_bytes)),
        buffers_(MakeBuffers(plan_, group_)),
        works_(plan_.buckets.size()),
        launcher_(plan_) {}

  void BeginStep() override { launcher_.Reset(); }

  void OnGradReady(model::Parameter& param) override {
    launcher_.MarkReady(param, [&](size_t i) {
      CopyIn(plan_.buckets[i], buffers_[i]);
      works_[i] = group_.AllReduce(buffers_[i], comm::ReduceOp::kMean);
    });
  }

  void Finish() override {
    for (size_t i = 0; i < works_.size(); ++i) {
      works_[i].Wait();
      CopyOut(plan_.buckets[i], buffers_[i]);
    }
  }

  BucketPlan plan() const override { return plan_; }

 private:
  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const std::vector<model::Tensor> buffers_;
  std::vector<comm::Work> works_;  // by bucket
  InOrderLauncher launcher_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "bucketed_async",
    .summary = "during backward one asynchronous all-reduce for each bucket of copies",
    .overlaps = true,
    .has_buckets = true,
    .gradient_copies = 1,
    .pytorch_twin = "ddp"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) {
  return std::make_unique<BucketedAsync>(context);
}

}  // namespace gradsync::ddp::bucketed_async
