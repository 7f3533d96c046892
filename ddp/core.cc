#include <algorithm>
#include <optional>

#include "ddp/ready_order.h"
#include "ddp/strategies.h"
#include "ddp/touched_rows.h"

namespace gradsync::ddp::core {
namespace {

// The best known way. Gradients live in the buckets: kernels write them there, all-reduces run on them there,
// the optimizer reads them there, and nothing is copied. Buckets are filled in the order in which gradients
// became ready in the first step (rank 0's, broadcast), so that each is full as early as it can be. The first
// is small, to start the link early. None holds more than what follows it, because only the computation of
// that can hide it: so the last are small, down to one tensor, and of an embedding's gradient, the last of a
// language model, only the rows that are not zero are sent.
// The mean costs no pass over memory: the loss is divided by the world size, and the all-reduce sums.
class Core : public Strategy {
 public:
  explicit Core(const StrategyContext& context)
      : group_(context.group), options_(context.options), ready_order_(context.params) {
    Layout({context.params.rbegin(), context.params.rend()});
  }

  void BeginStep() override {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      const Bucket& bucket = plan_.buckets[i];
      for (size_t k = 0; k < bucket.params.size(); ++k)
        bucket.params[k]->PlaceGrad(bucket.View(buffers_[i], k));
    }
    for (TouchedRows& rows : rows_) rows.Begin();
    launcher_->Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    ready_order_.Mark(param);
    launcher_->MarkReady(param, [&](size_t i) { works_.push_back(Send(i)); });
  }

  void Finish() override {
    for (comm::Work& work : works_) work.Wait();
    works_.clear();
    for (TouchedRows& rows : rows_) rows.Finish();
    if (const auto order = ready_order_.Agree(group_)) {
      rows_ = TouchedRows::Agree(*order, group_);
      Layout(*order);
    }
  }

  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return plan_; }

 private:
  // What is small: the first bucket holds at most this, and a bucket within it may be followed by less.
  static constexpr size_t kEdgeBytes = size_t{1} << 20;
  // Gradient kernels store whole vectors; a bucket that starts on a cache line keeps them aligned.
  static constexpr size_t kAlignmentBytes = 64;

  comm::Work Send(size_t i) {
    const auto rows = std::ranges::find(rows_, plan_.buckets[i].params.front(), &TouchedRows::param);
    return rows != rows_.end() ? rows->Send() : group_.AllReduce(buffers_[i], comm::ReduceOp::kSum);
  }

  void Layout(const std::vector<model::Parameter*>& order) {
    std::vector<model::Parameter*> whole = order;
    for (const TouchedRows& rows : rows_) std::erase(whole, rows.param());
    const size_t edge_bytes = std::min(kEdgeBytes, options_.bucket_bytes);
    plan_ = PlanBuckets(whole, {.bytes = options_.bucket_bytes,
                                .first_bytes = edge_bytes,
                                .last_bytes = edge_bytes,
                                .alignment_bytes = kAlignmentBytes});
    for (const TouchedRows& rows : rows_) InsertAlone(rows.param(), rows.bytes(), order, plan_);
    // Every order takes the same room, so that a new layout needs no new storage. Zeroed once: the gaps
    // between gradients are sent along, and must not hold NaNs.
    if (!storage_.defined()) storage_ = MakeStorage(plan_, kAlignmentBytes, group_);
    buffers_ = PlaceBuffers(plan_, kAlignmentBytes, storage_);
    launcher_.emplace(plan_);
  }

  comm::ProcessGroup& group_;
  const StrategyOptions options_;
  ReadyOrder ready_order_;
  BucketPlan plan_;
  model::Tensor storage_;               // of all buckets
  std::vector<model::Tensor> buffers_;  // views of it, by bucket
  std::vector<TouchedRows> rows_;       // of buckets that send them alone
  std::vector<comm::Work> works_;
  std::optional<InOrderLauncher> launcher_;
};

}  // namespace

constinit const Traits kTraits = {
    .name = "core",
    .summary = "during backward, without copies: gradients are views of buckets",
    .overlaps = true,
    .has_buckets = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .pytorch_twin = "ddp_view",
    .published_in_bytes = true};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Core>(context); }

}  // namespace gradsync::ddp::core
