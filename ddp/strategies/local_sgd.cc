#include <limits>

#include "ddp/buckets/bucket.h"
#include "ddp/lossy/reference.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::local_sgd {
namespace {

// Local SGD Converges Fast and Communicates Little, arXiv:1805.09767, algorithm 1: every rank trains alone,
// and after every H steps all ranks continue with the mean of their weights w:
//
//   w = optimizer(w, g)               on every rank, with its own gradient g
//   w = 1/N * sum over ranks of w     if the number of steps is a multiple of H: all-reduce
//
// Each rank keeps its own state of the optimizer. Nothing overlaps, but gradients are never sent.
class LocalSgd : public Strategy {
 public:
  explicit LocalSgd(const StrategyContext& context)
      : group_(context.group),
        period_(PeriodOf(kTraits, context.options)),
        plan_(PlanReverse(context.params, context.options.bucket_bytes)),
        buffers_(MakeBuffers(plan_, group_)) {}

  void Finish() override {}

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    optimizer.Step(grad_scale);
    if (++steps_ % period_ != 0) return;
    std::vector<comm::Work> works;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      CopyValuesIn(plan_.buckets[b], buffers_[b]);
      works.push_back(group_.AllReduce(buffers_[b], comm::ReduceOp::kMean));
    }
    for (size_t b = 0; b < buffers_.size(); ++b) {
      works[b].Wait();
      CopyValuesOut(plan_.buckets[b], buffers_[b]);
    }
  }

  BucketPlan plan() const override { return plan_; }
  void Reset() override { steps_ = 0; }

 private:
  comm::ProcessGroup& group_;
  const int64_t period_;
  const BucketPlan plan_;  // plan of the weights, which are sent once in each period
  const std::vector<model::Tensor> buffers_;
  int64_t steps_ = 0;
};

}  // namespace

constexpr Option kOptions[] = {PeriodOption("steps from one average of the weights to the next")};

constinit const Traits kTraits = {.name = "local_sgd",
                                  .position = 150,
                                  .summary = "every rank trains alone; every period weights are averaged",
                                  .agreement = Agreement::kDrifts,
                                  .has_buckets = true,
                                  .owns_update = true,
                                  .gradient_copies = 1,
                                  .options = kOptions,
                                  .reference = [](const ReferenceContext&) { return MeanReference(false); },
                                  .pytorch_twin = "post_local_sgd",
                                  .twin_differs_by = std::numeric_limits<double>::infinity()};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<LocalSgd>(context); }

}  // namespace gradsync::ddp::local_sgd
