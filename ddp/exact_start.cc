#include "ddp/exact_start.h"

#include <utility>
#include <vector>

#include "ddp/buckets/overlapped_buckets.h"

namespace gradsync::ddp {
namespace {

// Averages gradients in place. It needs no additional memory, so the memory of a variant does not depend on
// its first steps.
class InPlace : public OverlappedBuckets {
 public:
  explicit InPlace(const StrategyContext& context)
      : OverlappedBuckets(context.group,
                          PlanSingles(std::vector(context.params.rbegin(), context.params.rend()))) {}

 private:
  comm::Work Send(size_t i) override {
    return group_.AllReduce(plan_.buckets[i].params.front()->grad(), comm::ReduceOp::kMean);
  }
};

class ExactStart : public Strategy {
 public:
  ExactStart(int64_t num_steps, std::unique_ptr<Strategy> strategy, const StrategyContext& context)
      : num_steps_(num_steps), exact_(context), strategy_(std::move(strategy)) {}

  void BeginStep() override { current().BeginStep(); }
  void OnGradReady(model::Parameter& param) override { current().OnGradReady(param); }
  void Finish() override {
    current().Finish();
    ++steps_;
  }
  BucketPlan plan() const override { return steps_ < num_steps_ ? exact_.plan() : strategy_->plan(); }

  std::vector<model::NamedTensor> State() override { return strategy_->State(); }
  void Reset() override {
    steps_ = 0;
    strategy_->Reset();
  }

 private:
  Strategy& current() { return steps_ < num_steps_ ? exact_ : *strategy_; }

  const int64_t num_steps_;
  InPlace exact_;
  const std::unique_ptr<Strategy> strategy_;
  int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Strategy> StartExactly(int64_t num_steps, std::unique_ptr<Strategy> strategy,
                                       const StrategyContext& context) {
  if (num_steps == 0) return strategy;
  return std::make_unique<ExactStart>(num_steps, std::move(strategy), context);
}

}  // namespace gradsync::ddp
