#include "ddp/strategies.h"
#include "model/tensor_ops.h"

namespace gradsync::ddp::overlap {
namespace {

// During backward, an asynchronous all-reduce of each gradient the moment it is ready; afterwards, wait.
// Communication runs beside the rest of backward, at the price of one collective per parameter.
class Overlap : public Strategy {
 public:
  explicit Overlap(const StrategyContext& context)
      : params_(context.params.begin(), context.params.end()), group_(context.group) {
    works_.reserve(params_.size());
  }

  void OnGradReady(model::Parameter& param) override {
    Scale(param.grad(), 1.0 / group_.size());
    works_.push_back(group_.AllReduce(param.grad(), comm::ReduceOp::kSum));
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
    works_.clear();
  }

  // Forward order: the order of sending is the graph's.
  BucketPlan plan() const override { return PlanSingles(params_); }

 private:
  const std::vector<model::Parameter*> params_;
  comm::ProcessGroup& group_;
  std::vector<comm::Work> works_;
};

}  // namespace

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Overlap>(context); }

}  // namespace gradsync::ddp::overlap
