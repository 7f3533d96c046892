#include <algorithm>
#include <array>

#include "ddp/shards.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero2 {
namespace {

// `zero1`, whose gradients do not stay: every rank keeps its part of them alone ("ZeRO", stage 2,
// arXiv:1910.02054, section 5.2),
//
//   g[part r] = 1/p sum_s g_s[part r]
//   w[part r] = update(w[part r], g[part r]);  w = all parts
//
// A gradient is written to memory of its own. When all of a bucket are there they are copied together,
// their memory is free for those that backward computes next, and the bucket is reduced to this rank's part.
// There is room for two buckets, which take turns; weights travel through the same room.
class Zero2 : public Strategy {
 public:
  explicit Zero2(const StrategyContext& context)
      : group_(context.group),
        shards_(PlanReverse(context.params, context.options.bucket_bytes), group_),
        launcher_(shards_.reduced()) {
    for (model::Tensor& room : rooms_) room = MakeLargestBuffer(shards_.reduced(), group_);
    for (size_t i = 0; i < shards_.reduced().buckets.size(); ++i) {
      const Bucket& bucket = shards_.reduced().buckets[i];
      own_.push_back(model::Tensor::Zeros(bucket.device(), {shards_.part_numel(i)}, bucket.dtype()));
    }
    shards_.SetGradients(own_);
  }

  void BeginStep() override {
    for (const Bucket& bucket : shards_.reduced().buckets) {
      for (model::Parameter* const param : bucket.params) param->PlaceGrad({});
    }
    works_.clear();
    launcher_.Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    launcher_.MarkReady(param, [&](size_t i) {
      if (i >= rooms_.size()) works_[i - rooms_.size()].Wait();
      const Bucket& bucket = shards_.reduced().buckets[i];
      CopyIn(bucket, Room(i));
      for (model::Parameter* const sent : bucket.params) sent->PlaceGrad({});
      works_.push_back(group_.ReduceScatter(Room(i), own_[i], comm::ReduceOp::kMean));
    });
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
  }

  double SquaredNorm(std::span<model::Parameter* const>) override { return shards_.SquaredNorm(); }

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    shards_.Update(
        optimizer, grad_scale, [](size_t) {}, [&](size_t i) { return Room(i); });
  }

  void CompleteGradients() override {
    for (size_t i = 0; i < own_.size(); ++i) {
      group_.AllGather(own_[i], Room(i)).Wait();
      CopyOut(shards_.reduced().buckets[i], Room(i));
    }
  }

  std::vector<model::NamedTensor> State() override { return shards_.State(); }
  void Reset() override { shards_.Reset(); }
  BucketPlan plan() const override { return shards_.plan(); }

 private:
  model::Tensor Room(size_t i) const {
    const Bucket& bucket = shards_.reduced().buckets[i];
    return rooms_[i % rooms_.size()].SliceBytes(0, {bucket.numel}, bucket.dtype());
  }

  comm::ProcessGroup& group_;
  Shards shards_;
  std::array<model::Tensor, 2> rooms_;
  std::vector<model::Tensor> own_;  // this rank's parts of the gradients, by bucket
  InOrderLauncher launcher_;
  std::vector<comm::Work> works_;  // reduce-scatters, by bucket
};

}  // namespace

constinit const Traits kTraits = {
    .name = "zero2",
    .summary = "zero1 without whole gradients: each is freed when its bucket has been reduced",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .places_gradients = true,
    .gradient_copies = 3};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Zero2>(context); }

}  // namespace gradsync::ddp::zero2
