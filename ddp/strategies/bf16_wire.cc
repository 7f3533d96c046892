#include "ddp/buckets/overlapped_buckets.h"
#include "ddp/lossy/reference.h"
#include "ddp/strategies.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::ddp::bf16_wire {
namespace {

// Sends half the bytes: gradients g_r are rounded to bf16 and summed in f32 (gloo_own, mpi and nccl sum in
// bf16 and round at each addition), and their mean is rounded to bf16 again before it is sent back:
//
//   g = bf16(1/N * sum over ranks r of bf16(g_r))
//
// PyTorch's bf16_compress_hook divides by N in bf16 before the sum, which is one more rounding unless N is a
// power of two, and sums in bf16: gloo and NCCL round after each addition. Each rounding is to nearest, with
// a relative error of at most 2^-9, and there is no error feedback. During backward, a bucket whose gradients
// are all ready is rounded into its buffer and all-reduced, in plan order. After backward the strategy waits,
// and widens the results. (If ranks of a host share a link, the group sends their sum in f32, which is twice
// the bytes, because a sum in bf16 would be rounded before it is complete.)
class Bf16Wire : public OverlappedBuckets {
 public:
  explicit Bf16Wire(const StrategyContext& context)
      : OverlappedBuckets(context.group, PlanReverse(context.params, context.options.bucket_bytes)) {
    for (Bucket& bucket : plan_.buckets) {
      buffers_.push_back(group_.Allocate(bucket.device(), {bucket.numel}, model::DType::kBF16));
      bucket.messages_bytes = buffers_.back().nbytes();
    }
  }

 private:
  comm::Work Send(size_t i) override {
    const Bucket& bucket = plan_.buckets[i];
    for (size_t k = 0; k < bucket.params.size(); ++k)
      model::Cast(bucket.params[k]->grad(), bucket.View(buffers_[i], k));
    return group_.AllReduce(buffers_[i], comm::ReduceOp::kMean);
  }
  void Receive(size_t i) override {
    const Bucket& bucket = plan_.buckets[i];
    for (size_t k = 0; k < bucket.params.size(); ++k)
      model::Cast(bucket.View(buffers_[i], k), bucket.params[k]->grad());
  }

  std::vector<model::Tensor> buffers_;  // buffers by bucket
};

}  // namespace

constinit const Traits kTraits = {.name = "bf16_wire",
                                  .position = 120,
                                  .summary = "during backward, rounded to bf16: half the bytes",
                                  .agreement = Agreement::kLossy,
                                  .overlaps = true,
                                  .has_buckets = true,
                                  .needs_f32 = true,
                                  .gradient_copies = 0.5,
                                  .reference = [](const ReferenceContext&) { return MeanReference(true); },
                                  .pytorch_twin = "bf16_hook",
                                  // 8 bits of significand, rounded before the sum and after it.
                                  .twin_differs_by = 0x1p-7};

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Bf16Wire>(context); }

}  // namespace gradsync::ddp::bf16_wire
