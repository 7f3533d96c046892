#include <optional>

#include "ddp/ready_order.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::overlap {
namespace {

// During backward, an asynchronous all-reduce of each gradient the moment it is ready; afterwards, wait.
// Communication runs beside the rest of backward, at the price of one collective per parameter. They are
// issued in the order in which gradients became ready in the first step (rank 0's, broadcast): a rank on
// which they are ready in another order, because it uses other parameters, would otherwise average what does
// not belong together.
class Overlap : public Strategy {
 public:
  explicit Overlap(const StrategyContext& context) : group_(context.group), ready_order_(context.params) {
    Plan({context.params.rbegin(), context.params.rend()});
  }

  void BeginStep() override { launcher_->Reset(); }

  void OnGradReady(model::Parameter& param) override {
    ready_order_.Mark(param);
    launcher_->MarkReady(param, [&](size_t i) {
      works_.push_back(group_.AllReduce(plan_.buckets[i].params.front()->grad(), comm::ReduceOp::kMean));
    });
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
    works_.clear();
    if (const auto order = ready_order_.Agree(group_)) Plan(*order);
  }

  BucketPlan plan() const override { return plan_; }

 private:
  void Plan(const std::vector<model::Parameter*>& order) {
    plan_ = PlanSingles(order);
    launcher_.emplace(plan_);
  }

  comm::ProcessGroup& group_;
  ReadyOrder ready_order_;
  BucketPlan plan_;
  std::optional<InOrderLauncher> launcher_;
  std::vector<comm::Work> works_;
};

}  // namespace

constinit const Traits kTraits = {.name = "overlap",
                                  .summary = "during backward one asynchronous all-reduce for each parameter",
                                  .overlaps = true,
                                  .pytorch_twin = "overlap"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Overlap>(context); }

}  // namespace gradsync::ddp::overlap
