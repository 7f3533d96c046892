#include "ddp/buckets/bucket.h"
#include "ddp/strategies.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp::naive {
namespace {

// After backward, runs one blocking all-reduce per parameter: each waits for the previous all-reduce, and all
// wait for the last gradient. The mean needs a separate pass over memory, as in published implementations; in
// other strategies the collective or the loss contains the factor of the mean.
class Naive : public Strategy {
 public:
  explicit Naive(const StrategyContext& context)
      : params_(context.params.begin(), context.params.end()), group_(context.group) {}

  void Finish() override {
    for (model::Parameter* param : params_) {
      Scale(param->grad(), 1.0 / group_.size());
      group_.AllReduce(param->grad(), comm::ReduceOp::kSum, comm::Waits::kAtOnce).Wait();
    }
  }

  BucketPlan plan() const override { return PlanSingles(params_); }

 private:
  const std::vector<model::Parameter*> params_;
  comm::ProcessGroup& group_;
};

}  // namespace

constinit const Traits kTraits = {.name = "naive",
                                  .position = 10,
                                  .summary = "after backward one blocking all-reduce for each parameter",
                                  .pytorch_twin = "naive"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Naive>(context); }

}  // namespace gradsync::ddp::naive
