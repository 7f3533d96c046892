#include <algorithm>

#include "ddp/shards.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero2 {
namespace {

// `zero1`, whose gradients do not stay: every rank keeps its part of them alone ("ZeRO", stage 2,
// arXiv:1910.02054, section 5.2),
//
//   g[part r] = 1/p sum_s g_s[part r]     a reduce-scatter of each bucket, during backward
//   w[part r] = update(w[part r], g[part r]);  w = all parts
//
// Gradients are views of their bucket, whose memory later buckets use again: no four in a row have memory in
// common. When a bucket leaves, the next but one gets its place, for which the last but one must have
// arrived. A gradient that is there before its place, and a sum of earlier passes, waits in memory of its
// own.
class Zero2 : public Strategy {
 public:
  explicit Zero2(const StrategyContext& context)
      : group_(context.group),
        shards_(PlanPlaced(std::vector(context.params.rbegin(), context.params.rend()),
                           context.options.bucket_bytes),
                group_),
        rooms_(PlaceInTurns(shards_.reduced(), kWindow, group_)),
        launcher_(shards_.reduced()) {
    for (size_t i = 0; i < rooms_.size(); ++i) {
      own_.push_back(model::Tensor::Zeros(rooms_[i].device(), {shards_.part_numel(i)}, rooms_[i].dtype()));
    }
    shards_.SetGradients(own_);
    if (context.optimizer != nullptr) shards_.MakeOptimizer(*context.optimizer);
  }

  void BeginStep() override {
    shards_.PlaceValues();
    for (const Bucket& bucket : shards_.reduced().buckets) {
      for (model::Parameter* const param : bucket.params) param->PlaceGrad({});
    }
    for (size_t i = 0; i < std::min(kAhead, rooms_.size()); ++i) Place(i);
    works_.clear();
    launcher_.Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    launcher_.MarkReady(param, [&](size_t i) {
      works_.push_back(group_.ReduceScatter(rooms_[i], own_[i], comm::ReduceOp::kSum));
      const size_t next = i + kAhead;
      if (next >= rooms_.size()) return;
      if (next >= kWindow) works_[next - kWindow].Wait();
      Place(next);
    });
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
  }

  double SquaredNorm(std::span<model::Parameter* const>) override { return shards_.SquaredNorm(); }

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    shards_.Update(
        optimizer, grad_scale, [](size_t) {}, [&](size_t i) { return rooms_[i]; });
  }

  void CompleteGradients() override {
    for (size_t i = 0; i < rooms_.size(); ++i) {
      const Bucket& bucket = shards_.reduced().buckets[i];
      group_.AllGather(own_[i], rooms_[i]).Wait();
      for (model::Parameter* const param : bucket.params) param->PlaceGrad({});
      CopyOut(bucket, rooms_[i]);
    }
  }

  std::vector<model::NamedTensor> State() override { return shards_.State(); }
  void Reset() override { shards_.Reset(); }
  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return shards_.plan(); }

 private:
  static constexpr size_t kAhead = 2, kWindow = 4;

  void Place(size_t i) {
    const Bucket& bucket = shards_.reduced().buckets[i];
    for (size_t k = 0; k < bucket.params.size(); ++k) {
      model::Parameter& param = *bucket.params[k];
      const model::Tensor place = bucket.View(rooms_[i], k);
      if (param.has_grad()) place.CopyFrom(param.grad());
      param.PlaceGrad(place);
    }
  }

  comm::ProcessGroup& group_;
  Shards shards_;
  const std::vector<model::Tensor> rooms_;  // of whole buckets
  std::vector<model::Tensor> own_;          // this rank's parts of the gradients, by bucket
  InOrderLauncher launcher_;
  std::vector<comm::Work> works_;  // reduce-scatters, by bucket
};

}  // namespace

constinit const Traits kTraits = {
    .name = "zero2",
    .summary = "zero1 without whole gradients: memory of a bucket that has been reduced is used again",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .places_gradients = true,
    .gradient_copies = 1.5};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Zero2>(context); }

}  // namespace gradsync::ddp::zero2
