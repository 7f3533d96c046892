#include <limits>

#include "ddp/buckets/bucket.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::flat {
namespace {

// After backward, all gradients are concatenated, reduced together, and split again. This costs the latency
// of one collective per dtype instead of one per parameter, and two copies of every gradient.
class Flat : public Strategy {
 public:
  explicit Flat(const StrategyContext& context)
      : group_(context.group),
        plan_(PlanReverse(context.params, kEverything)),
        buffers_(MakeBuffers(plan_, group_)) {}

  void Finish() override {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      CopyIn(plan_.buckets[i], buffers_[i]);
      group_.AllReduce(buffers_[i], comm::ReduceOp::kMean, comm::Waits::kAtOnce).Wait();
      CopyOut(plan_.buckets[i], buffers_[i]);
    }
  }

  BucketPlan plan() const override { return plan_; }

 private:
  static constexpr size_t kEverything = std::numeric_limits<size_t>::max();

  comm::ProcessGroup& group_;
  const BucketPlan plan_;
  const std::vector<model::Tensor> buffers_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "flat",
    .position = 20,
    .summary = "after backward one all-reduce of all gradients, copied together",
    .gradient_copies = 1,
    .pytorch_twin = "flat"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Flat>(context); }

}  // namespace gradsync::ddp::flat
