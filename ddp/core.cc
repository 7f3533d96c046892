#include <algorithm>
#include <optional>

#include "ddp/strategies.h"

namespace gradsync::ddp::core {
namespace {

// The best known way. Gradients live in the buckets: kernels write them there, all-reduces run on them there,
// the optimizer reads them there, and nothing is copied. Buckets are filled in the order in which gradients
// became ready in the first step (rank 0's, broadcast), so that each is full as early as it can be. The first
// is small, to start the link early; the last is small, because nothing hides it. The mean costs no pass over
// memory: the loss is divided by the world size, and the all-reduce sums.
class Core : public Strategy {
 public:
  explicit Core(const StrategyContext& context)
      : params_(context.params.begin(), context.params.end()),
        group_(context.group),
        options_(context.options) {
    Layout({params_.rbegin(), params_.rend()});
  }

  void BeginStep() override {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      const Bucket& bucket = plan_.buckets[i];
      for (size_t k = 0; k < bucket.params.size(); ++k)
        bucket.params[k]->PlaceGrad(bucket.View(buffers_[i], k));
    }
    launcher_->Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    if (!measured_) ready_order_.push_back(&param);
    launcher_->MarkReady(
        param, [&](size_t i) { works_.push_back(group_.AllReduce(buffers_[i], comm::ReduceOp::kSum)); });
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
    works_.clear();
    if (!measured_) Layout(AgreeOnOrder());
    measured_ = true;
  }

  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return plan_; }

 private:
  // A bucket that nothing hides, or that everything waits for, holds at most this; as do all if they are
  // smaller.
  static constexpr size_t kEdgeBytes = size_t{1} << 20;
  // Gradient kernels store whole vectors; a bucket that starts on a cache line keeps them aligned.
  static constexpr size_t kAlignmentBytes = 64;

  void Layout(const std::vector<model::Parameter*>& order) {
    const size_t edge_bytes = std::min(kEdgeBytes, options_.bucket_bytes);
    plan_ = PlanBuckets(order, {.bytes = options_.bucket_bytes,
                                .first_bytes = edge_bytes,
                                .last_bytes = edge_bytes,
                                .alignment_bytes = kAlignmentBytes});
    // Every order takes the same room, so that a new layout needs no new storage. Zeroed once: the gaps
    // between gradients are sent along, and must not hold NaNs.
    if (!storage_.defined()) storage_ = MakeStorage(plan_, kAlignmentBytes, group_);
    buffers_ = PlaceBuffers(plan_, kAlignmentBytes, storage_);
    launcher_.emplace(plan_);
  }

  // Rank 0's ready order, on every rank.
  std::vector<model::Parameter*> AgreeOnOrder() const {
    std::vector<int32_t> order;
    for (const model::Parameter* param : ready_order_) {
      order.push_back(static_cast<int32_t>(std::ranges::find(params_, param) - params_.begin()));
    }
    const model::Tensor agreed = model::Tensor::From<int32_t>(
        storage_.device(), {static_cast<int64_t>(order.size())}, std::span<const int32_t>(order));
    group_.Broadcast(agreed, 0).Wait();
    std::vector<model::Parameter*> params;
    for (const int32_t i : agreed.ToVector<int32_t>()) params.push_back(params_.at(static_cast<size_t>(i)));
    return params;
  }

  const std::vector<model::Parameter*> params_;
  comm::ProcessGroup& group_;
  const StrategyOptions options_;
  BucketPlan plan_;
  model::Tensor storage_;               // of all buckets
  std::vector<model::Tensor> buffers_;  // views of it, by bucket
  std::vector<comm::Work> works_;
  std::optional<InOrderLauncher> launcher_;
  std::vector<model::Parameter*> ready_order_;  // of the first step
  bool measured_ = false;
};

}  // namespace

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Core>(context); }

}  // namespace gradsync::ddp::core
