#include "ddp/strategies.h"

namespace gradsync::ddp::none {
namespace {

// Sends nothing. The floor that the other strategies' cost is measured from: every replica trains on its own
// data, and they drift apart.
class None : public Strategy {
 public:
  void Finish() override {}
  BucketPlan plan() const override { return {}; }
};

}  // namespace

constinit const Traits kTraits = {.name = "none",
                                  .summary = "sends nothing: the floor, whose replicas drift",
                                  .agreement = Agreement::kDrifts,
                                  .communicates = false,
                                  .pytorch_twin = "none"};

std::unique_ptr<Strategy> Make(const StrategyContext&) { return std::make_unique<None>(); }

}  // namespace gradsync::ddp::none
