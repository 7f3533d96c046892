#include "ddp/overlapped_buckets.h"
#include "ddp/ready_order.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::overlap {
namespace {

// During backward, an asynchronous all-reduce of each gradient the moment it is ready; afterwards, wait.
// Communication runs beside the rest of backward, at the price of one collective per parameter. They are
// issued in the order in which gradients became ready in the first step (rank 0's, broadcast): a rank on
// which they are ready in another order, because it uses other parameters, would otherwise average what does
// not belong together.
class Overlap : public OverlappedBuckets {
 public:
  explicit Overlap(const StrategyContext& context)
      : OverlappedBuckets(context.group,
                          PlanSingles(std::vector(context.params.rbegin(), context.params.rend()))),
        ready_order_(context.params) {}

  void OnGradReady(model::Parameter& param) override {
    ready_order_.Mark(param);
    OverlappedBuckets::OnGradReady(param);
  }

  void Finish() override {
    ReceiveAll();
    if (const auto order = ready_order_.Agree(group_)) SetPlan(PlanSingles(*order));
  }

 private:
  comm::Work Send(size_t i) override {
    return group_.AllReduce(plan_.buckets[i].params.front()->grad(), comm::ReduceOp::kMean);
  }

  ReadyOrder ready_order_;
};

}  // namespace

constinit const Traits kTraits = {.name = "overlap",
                                  .summary = "during backward one asynchronous all-reduce for each parameter",
                                  .overlaps = true,
                                  .pytorch_twin = "overlap"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Overlap>(context); }

}  // namespace gradsync::ddp::overlap
