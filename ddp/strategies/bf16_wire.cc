#include "ddp/overlapped_buckets.h"
#include "ddp/reference.h"
#include "ddp/strategies.h"
#include "model/tensor_ops.h"

namespace gradsync::ddp::bf16_wire {
namespace {

// Half the bytes: gradients g_r are rounded to bf16, are summed in f32 (by gloo_own, mpi and nccl in bf16,
// which they round at each addition), and their mean is rounded once more for its way back:
//
//   g = bf16(1/N * sum over ranks r of bf16(g_r))
//
// PyTorch's bf16_compress_hook divides by N in bf16 before the sum, which is one more rounding unless N is a
// power of two, and sums in bf16: gloo and NCCL round after each addition. Rounding is to nearest, with a
// relative error of at most 2^-9 each time, and is not made up for later: what loses more has to be better
// than this. During backward, a bucket whose gradients are all ready is rounded into its buffer and
// all-reduced, in plan order. Afterwards: wait, widen. (Where a host's ranks share a link, the group sends
// their sum in f32, twice the bytes: in bf16 it would be rounded before it is complete.)
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

  std::vector<model::Tensor> buffers_;  // by bucket
};

}  // namespace

constinit const Traits kTraits = {.name = "bf16_wire",
                                  .summary = "during backward, rounded to bf16: half the bytes",
                                  .agreement = Agreement::kLossy,
                                  .overlaps = true,
                                  .has_buckets = true,
                                  .needs_f32 = true,
                                  .gradient_copies = 0.5,
                                  .reference = [](const ReferenceContext&) { return MeanReference(true); },
                                  .pytorch_twin = "bf16_hook",
                                  .twin_differs_by = 0x1p-7};  // 8 bits, before the sum and after it

std::unique_ptr<Strategy> Make(const StrategyContext& context) { return std::make_unique<Bf16Wire>(context); }

}  // namespace gradsync::ddp::bf16_wire
