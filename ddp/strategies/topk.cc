#include <unordered_map>

#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/lossy/largest.h"
#include "ddp/lossy/reference.h"
#include "ddp/strategies.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp::topk {
namespace {

using model::Parameter, model::Tensor;

// Sparse Communication for Distributed Gradient Descent, arXiv:1704.05021, algorithm 1 (gradient dropping),
// with a number of elements for each gradient instead of a threshold. A rank sends few elements of every
// gradient g of two dimensions or more, and keeps the others in m for later steps:
//
//   m = m + g, s = the `percent` per cent of m with the largest magnitude
//   m = m - s                          or m = 0 with feedback=0: elements that are not sent are lost
//   g = 1/N * sum over ranks of s      all-gather of values and indices
//
// Vectors, and all gradients of the first `warmup` steps, are sent whole. In arXiv:1809.07599 m holds
// updates, gradients times the learning rate. Deep Gradient Compression, arXiv:1712.01887, also has a
// correction of momentum.
//
// During backward, a bucket whose gradients are all ready becomes a message, which an all-gather sends to all
// ranks. Each rank adds the messages in rank order, so the sums are bitwise equal on all ranks.
class TopK : public OverlappedBuckets {
 public:
  explicit TopK(const StrategyContext& context)
      : OverlappedBuckets(context.group, PlanReverse(context.params, context.options.bucket_bytes)),
        keeps_error_(ValueOf(kTraits, "feedback", context.options) != 0) {
    for (const Parameter* param : context.params)
      memory_[param] = Tensor::Zeros(param->device(), param->shape(), param->dtype());
    const double percent = ValueOf(kTraits, "percent", context.options);
    for (Bucket& bucket : plan_.buckets) {
      const int64_t bytes = group_.size() * PlanMessage(percent, bucket);
      messages_.push_back(group_.Allocate(bucket.device(), {bytes}, model::DType::kU8));
      bucket.messages_bytes = messages_.back().nbytes();
      bucket.collective = comm::Collective::kAllGather;
    }
  }

  void OnGradReady(Parameter& param) override {
    AddTo(param.grad(), memory_.at(&param));  // After this, the memory of the gradient is free.
    OverlappedBuckets::OnGradReady(param);
  }
  std::vector<model::NamedTensor> State() override {
    std::vector<model::NamedTensor> state;
    for (const auto& [param, memory] : memory_) state.emplace_back("error." + param->name(), memory);
    return state;
  }
  void Reset() override {
    for (const auto& [param, memory] : memory_) memory.Zero();
  }

 private:
  comm::Work Send(size_t b) override {
    const auto take = [&](Parameter& of, float* values, int32_t* indices, int64_t count) {
      TakeLargest(memory_.at(&of), of.grad(), count, values, indices);
      if (!keeps_error_) memory_.at(&of).Zero();
    };
    ForEachIn(Message(b, group_.rank()), plan_.buckets[b], take);
    return group_.AllGather(Message(b, group_.rank()), messages_[b]);
  }

  void Receive(size_t b) override {
    for (Parameter* param : plan_.buckets[b].params) param->grad().Zero();
    const auto add = [](Parameter& of, const float* values, const int32_t* indices, int64_t count) {
      float* const grad = of.grad().data<float>();
      for (int64_t n = 0; n < count; ++n) grad[indices != nullptr ? indices[n] : n] += values[n];
    };
    for (int rank = 0; rank < group_.size(); ++rank) ForEachIn(Message(b, rank), plan_.buckets[b], add);
    for (Parameter* param : plan_.buckets[b].params) Scale(param->grad(), 1.0 / group_.size());
  }

  Tensor Message(size_t b, int rank) const {
    const int64_t bytes = messages_[b].numel() / group_.size();
    return messages_[b].Slice(rank * bytes, {bytes});
  }

  const bool keeps_error_;
  std::unordered_map<const Parameter*, Tensor> memory_;
  std::vector<Tensor> messages_;  // messages of all ranks, by bucket
};

}  // namespace

constexpr Option kOptions[] = {{.name = "percent",
                                .meaning = "how many per cent of a gradient's elements are sent",
                                .has_fractions = true,
                                .default_value = 1,
                                .range = {0.001, 100}},
                               {.name = "feedback",
                                .meaning = "1: what is not sent is kept for later steps, 0: lost",
                                .default_value = 1},
                               StartOption("warmup", "steps before gradients are sent in part")};

constinit const Traits kTraits = {
    .name = "topk",
    .position = 140,
    .summary = "the largest elements of each gradient, with error feedback",
    .agreement = Agreement::kLossy,
    .overlaps = true,
    .has_buckets = true,
    .needs_f32 = true,
    .needs_cpu = true,
    .gradient_copies = 1,
    .more_copies = [](const StrategyOptions& o, int world_size,
                      double /*largest_unit*/) { return 0.02 * world_size * ValueOf(kTraits, "percent", o); },
    .options = kOptions,
    .reference =
        [](const ReferenceContext& c) {
          return TopKReference(c.shapes, ValueOf(kTraits, "percent", c.options),
                               ValueOf(kTraits, "feedback", c.options) != 0);
        }};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<TopK>(context); }

}  // namespace gradsync::ddp::topk
