#include "ddp/buckets/bucket.h"
#include "ddp/lossy/reference.h"
#include "ddp/strategies.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp::diloco {
namespace {

using model::Tensor;

// DiLoCo: Distributed Low-Communication Training of Language Models, arXiv:2311.08105, algorithm 1, and its
// scaling laws, arXiv:2503.09799. Every rank trains H steps alone, from equal weights w_old. The mean change
// of the weights is used as a gradient, with which an outer optimizer, SGD with Nesterov momentum, updates
// w_old:
//   w = optimizer(w, g)                       on every rank, H times; each rank keeps its own state
//   d = w_old - 1/N * sum over ranks of w     all-reduce of w_old - w; -d is the descent direction
//   v = momentum * v + d, w = w_old - rate * (d + momentum * v)
//
// With one rank, a rate of 1 and no momentum, the result differs only by rounding.
class Diloco : public Strategy {
 public:
  explicit Diloco(const StrategyContext& context)
      : group_(context.group),
        period_(PeriodOf(kTraits, context.options)),
        rate_(ValueOf(kTraits, "outer_rate", context.options)),
        momentum_(ValueOf(kTraits, "outer_momentum", context.options)),
        plan_(PlanReverse(context.params, context.options.bucket_bytes)),
        buffers_(MakeBuffers(plan_, group_)) {
    for (const Bucket& bucket : plan_.buckets) {
      old_.push_back(Tensor::Empty(bucket.device(), {bucket.numel}, bucket.dtype()));
      momentum_velocity_.push_back(Tensor::Zeros(bucket.device(), {bucket.numel}, bucket.dtype()));
    }
  }

  void BeginStep() override {
    if (steps_ % period_ != 0) return;
    for (size_t b = 0; b < old_.size(); ++b) CopyValuesIn(plan_.buckets[b], old_[b]);
  }

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    optimizer.Step(grad_scale);
    if (++steps_ % period_ != 0) return;
    std::vector<comm::Work> works;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      const Tensor& d = buffers_[b];
      CopyValuesIn(plan_.buckets[b], d);
      Scale(d, -1);
      AddTo(old_[b], d);
      works.push_back(group_.AllReduce(d, comm::ReduceOp::kMean));
    }
    for (size_t b = 0; b < buffers_.size(); ++b) {
      works[b].Wait();
      const Tensor &d = buffers_[b], &mv = momentum_velocity_[b];
      AddTo(d, mv);
      Scale(mv, momentum_);  // momentum * v
      AddTo(mv, d);
      Scale(d, -rate_);
      AddTo(old_[b], d);
      CopyValuesOut(plan_.buckets[b], d);
    }
  }

  void Finish() override {}
  BucketPlan plan() const override { return plan_; }

  std::vector<model::NamedTensor> State() override {
    std::vector<model::NamedTensor> state;
    for (size_t b = 0; b < old_.size(); ++b) {
      state.emplace_back(Join("old.", b), old_[b]);
      state.emplace_back(Join("momentum_velocity.", b), momentum_velocity_[b]);
    }
    return state;
  }
  void Reset() override {
    steps_ = 0;
    for (const Tensor& mv : momentum_velocity_) mv.Zero();
  }

 private:
  comm::ProcessGroup& group_;
  const int64_t period_;
  const double rate_, momentum_;
  const BucketPlan plan_;  // plan of d, which is sent once in each period
  const std::vector<Tensor> buffers_;
  std::vector<Tensor> old_;                // w_old by bucket
  std::vector<Tensor> momentum_velocity_;  // momentum * v; v itself is not needed
  int64_t steps_ = 0;
};

}  // namespace

constexpr Option kOptions[] = {PeriodOption("steps from one outer step to the next"),
                               {.name = "outer_rate",
                                .meaning = "learning rate of the outer optimizer",
                                .has_fractions = true,
                                .default_value = 0.7,
                                .range = {0, 10}},
                               {.name = "outer_momentum",
                                .meaning = "momentum of the outer optimizer",
                                .has_fractions = true,
                                .default_value = 0.9,
                                .range = {0, 0.9999}}};

constinit const Traits kTraits = {
    .name = "diloco",
    .position = 160,
    .summary = "every rank trains alone; every period an outer optimizer applies the mean change",
    .agreement = Agreement::kDrifts,
    .has_buckets = true,
    .owns_update = true,
    .gradient_copies = 3,
    .options = kOptions,
    .reference = [](const ReferenceContext& context) {
      return DilocoReference(context.weights, ValueOf(kTraits, "outer_rate", context.options),
                             ValueOf(kTraits, "outer_momentum", context.options));
    }};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Diloco>(context); }

}  // namespace gradsync::ddp::diloco
