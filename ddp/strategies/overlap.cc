#include <utility>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::overlap {
namespace {

// During backward, issues an asynchronous all-reduce of each gradient as soon as it is ready, and waits after
// backward. Communication overlaps with the rest of backward, at the cost of one collective per parameter.
// All-reduces are issued in the order in which rank 0's gradients became ready in the first step. Without a
// common order, a rank whose gradients are ready in another order, because it uses other parameters, would
// average different gradients with each other.
class Overlap : public OverlappedBuckets {
 public:
  explicit Overlap(const StrategyContext& context)
      : OverlappedBuckets(context.group,
                          PlanSingles(std::vector(context.params.rbegin(), context.params.rend()))) {}

  void Finish() override {
    ReceiveAll();
    if (!std::exchange(has_order_, true)) SetPlan(PlanSingles(AgreeOnReadyOrder()));
  }

 private:
  comm::Work Send(size_t i) override {
    return group_.AllReduce(plan_.buckets[i].params.front()->grad(), comm::ReduceOp::kMean);
  }

  bool has_order_ = false;
};

}  // namespace

constinit const Traits kTraits = {.name = "overlap",
                                  .position = 30,
                                  .summary = "during backward one asynchronous all-reduce for each parameter",
                                  .overlaps = true,
                                  .pytorch_twin = "overlap"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Overlap>(context); }

}  // namespace gradsync::ddp::overlap
