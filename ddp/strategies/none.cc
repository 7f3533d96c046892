#include "ddp/buckets/bucket.h"
#include "ddp/strategies.h"

namespace gradsync::ddp::none {
namespace {

// Sends nothing. This is the floor, relative to which the costs of other strategies are measured. Every
// replica trains on its own data, so replicas diverge.
class None : public Strategy {
 public:
  void Finish() override {}
  BucketPlan plan() const override { return {}; }
};

}  // namespace

constinit const Traits kTraits = {.name = "none",
                                  .position = 0,
                                  .summary = "sends nothing: the floor, whose replicas drift",
                                  .agreement = Agreement::kDrifts,
                                  .communicates = false,
                                  .pytorch_twin = "none"};

std::unique_ptr<Strategy> Make(const StrategyContext&) { return std::make_unique<None>(); }

}  // namespace gradsync::ddp::none
