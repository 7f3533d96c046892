#include "ddp/shards.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::zero1 {
namespace {

// Every rank keeps the optimizer's state of one part of the parameters only ("ZeRO", stage 1,
// arXiv:1910.02054, section 5.1): with gradients g_r of rank r = 0, ..., p - 1,
//
//   g[part r] = 1/p sum_s g_s[part r]     a reduce-scatter of each bucket, during backward
//   w[part r] = update(w[part r], g[part r])
//   w = all parts                         an all-gather of each bucket, while the next is updated
//
// which moves as many bytes as one all-reduce. Where ranks have memory in common the weights exist once, and
// need no all-gather (ddp/shards.h). Gradients are views of buckets, as in `core`, and weights travel through
// the same storage. Buckets are filled in reverse forward order, and stay: an element's state
// cannot move to another rank.
class Zero1 : public Strategy {
 public:
  explicit Zero1(const StrategyContext& context)
      : group_(context.group),
        shards_(PlanPlaced(std::vector(context.params.rbegin(), context.params.rend()),
                           context.options.bucket_bytes),
                group_),
        buffers_(PlaceBuffers(shards_.reduced(), MakeStorage(shards_.reduced(), group_))),
        launcher_(shards_.reduced()) {
    std::vector<model::Tensor> own;
    for (size_t i = 0; i < buffers_.size(); ++i) own.push_back(shards_.OwnPart(i, buffers_[i]));
    shards_.SetGradients(std::move(own));
    if (context.optimizer != nullptr) shards_.MakeOptimizer(*context.optimizer);
  }

  void BeginStep() override {
    shards_.PlaceValues();
    PlaceGrads(shards_.reduced(), buffers_);
    works_.clear();
    launcher_.Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    launcher_.MarkReady(param, [&](size_t i) {
      works_.push_back(
          group_.ReduceScatter(buffers_[i], shards_.OwnPart(i, buffers_[i]), comm::ReduceOp::kSum));
    });
  }

  void Finish() override {}

  double SquaredNorm(std::span<model::Parameter* const>) override {
    for (comm::Work& work : works_) work.Wait();
    return shards_.SquaredNorm();
  }

  void Update(model::Optimizer& optimizer, double grad_scale) override {
    shards_.Update(
        optimizer, grad_scale, [&](size_t i) { works_[i].Wait(); }, [&](size_t i) { return buffers_[i]; });
  }

  void CompleteGradients() override {
    for (comm::Work& work : works_) work.Wait();
    for (size_t i = 0; i < buffers_.size(); ++i)
      group_.AllGather(shards_.OwnPart(i, buffers_[i]), buffers_[i]).Wait();
  }

  std::vector<model::NamedTensor> State() override { return shards_.State(); }
  void Reset() override { shards_.Reset(); }
  double loss_scale() const override { return 1.0 / group_.size(); }
  BucketPlan plan() const override { return shards_.plan(); }

 private:
  comm::ProcessGroup& group_;
  Shards shards_;
  const std::vector<model::Tensor> buffers_;  // views of one storage, by bucket
  InOrderLauncher launcher_;
  std::vector<comm::Work> works_;  // reduce-scatters, by bucket
};

}  // namespace

constinit const Traits kTraits = {
    .name = "zero1",
    .summary = "each rank updates a part with its part of the optimizer's state, and gathers the others'",
    .overlaps = true,
    .has_buckets = true,
    .owns_update = true,
    .owns_state = true,
    .shards_state = true,
    .places_gradients = true,
    .gradient_copies = 1,
    .pytorch_twin = "zero1"};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Zero1>(context); }

}  // namespace gradsync::ddp::zero1
