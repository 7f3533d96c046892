#include <unordered_map>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/lossy/low_rank.h"
#include "ddp/lossy/reference.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::powersgd {
namespace {

// PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization, arXiv:1905.13727,
// algorithms 1 and 2. A gradient is a matrix G of its first dimension and all others; two thin factors of G
// are sent. Every rank keeps the unsent part of its gradients in E:
//
//   M = G + E                                  error feedback
//   P = orthonormal(mean over ranks of M Q)    all-reduce; Q of the previous step (warm start), first random
//   Q = mean over ranks of M' P                all-reduce
//   G = P Q', E = M - G                        the new G; P, Q and G are bitwise equal on all ranks
//
// Vectors, and gradients whose factors are not `min_compression` times smaller, are sent whole with the P of
// their bucket, during backward. One all-reduce of all Q follows; PyTorch computes P and Q bucket by bucket.
// PyTorch's default `start` is 1000; the authors used 100.
class PowerSgd : public OverlappedBuckets {
 public:
  explicit PowerSgd(const StrategyContext& context)
      : OverlappedBuckets(context.group, PlanReverse(context.params, context.options.bucket_bytes)) {
    const auto rank = static_cast<int64_t>(ValueOf(kTraits, "rank", context.options));
    const double min_compression = ValueOf(kTraits, "min_compression", context.options);
    for (model::Parameter* param : context.params)
      gradients_.try_emplace(param, *param, rank, min_compression, gradients_.size());
    // P replaces gradients in their buckets.
    for (Bucket& bucket : plan_.buckets) {
      bucket.numel = 0;
      for (size_t i = 0; i < bucket.params.size(); ++i) {
        const LowRank& gradient = gradients_.at(bucket.params[i]);
        bucket.offsets[i] = std::exchange(bucket.numel, bucket.numel + gradient.p_numel());
        if (gradient.is_whole()) continue;
        qs_.params.push_back(bucket.params[i]);
        qs_.offsets.push_back(std::exchange(qs_.numel, qs_.numel + gradient.q_numel()));
      }
      buffers_.push_back(group_.Allocate(bucket.device(), {bucket.numel}, bucket.dtype()));
      for (size_t i = 0; i < bucket.params.size(); ++i)
        gradients_.at(bucket.params[i]).PlaceP(buffers_.back(), bucket.offsets[i]);
    }
    if (!qs_.params.empty()) q_buffer_ = MakeBuffers({{qs_}}, group_).front();
    for (size_t i = 0; i < qs_.params.size(); ++i)
      gradients_.at(qs_.params[i]).PlaceQ(q_buffer_, qs_.offsets[i]);
    Reset();
  }

  void OnGradReady(model::Parameter& param) override {
    gradients_.at(&param).MakeP();
    OverlappedBuckets::OnGradReady(param);
  }

  void Finish() override {
    ReceiveAll();
    if (q_buffer_.defined()) group_.AllReduce(q_buffer_, comm::ReduceOp::kMean, comm::Waits::kAtOnce).Wait();
    for (auto& [param, gradient] : gradients_) gradient.Finish();
  }

  BucketPlan plan() const override {
    BucketPlan plan = plan_;
    if (q_buffer_.defined()) plan.buckets.push_back(qs_);
    return plan;
  }

  std::vector<model::NamedTensor> State() override {
    std::vector<model::NamedTensor> state;
    for (const model::Parameter* param : qs_.params) {
      state.emplace_back("error." + param->name(), gradients_.at(param).error());
      state.emplace_back("q." + param->name(), gradients_.at(param).q());
    }
    return state;
  }
  void Reset() override {
    for (auto& [param, gradient] : gradients_) gradient.Reset();
  }

 private:
  comm::Work Send(size_t b) override { return group_.AllReduce(buffers_[b], comm::ReduceOp::kMean); }
  void Receive(size_t b) override {
    for (const model::Parameter* param : plan_.buckets[b].params) gradients_.at(param).MakeQ();
  }

  Bucket qs_;  // the bucket of all Q
  std::unordered_map<const model::Parameter*, LowRank> gradients_;
  std::vector<model::Tensor> buffers_;  // buffers of P, by bucket
  model::Tensor q_buffer_;
};

}  // namespace

constexpr Option kOptions[] = {
    {.name = "rank", .meaning = "rank of the factors sent", .default_value = 4, .range = {1, 0x1p20}},
    StartOption("start", "steps before compression begins"),
    {.name = "min_compression",
     .meaning = "gradients are sent whole if factors make them less than this number of times smaller",
     .has_fractions = true,
     .default_value = 2,
     .range = {1, 1e6}}};

constinit const Traits kTraits = {.name = "powersgd",
                                  .position = 130,
                                  .summary = "thin factors of each gradient, with error feedback",
                                  .agreement = Agreement::kLossy,
                                  .overlaps = true,
                                  .has_buckets = true,
                                  .needs_f32 = true,
                                  .needs_cpu = true,
                                  .gradient_copies = 2,
                                  .options = kOptions,
                                  .reference = [](const ReferenceContext& c) {
                                    return PowerSgdReference(c.shapes, ValueOf(kTraits, "rank", c.options),
                                                             ValueOf(kTraits, "min_compression", c.options));
                                  }};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<PowerSgd>(context); }

}  // namespace gradsync::ddp::powersgd
