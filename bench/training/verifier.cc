#include "bench/training/verifier.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "bench/launch/rank_zero.h"
#include "bench/training/record.h"

namespace gradsync::bench {
namespace {

using model::Batch;

// Whose batch checks take.
constexpr int64_t kCheckStep = 1;

}  // namespace

Fields Verifier::Check(Variant& variant) {
  Fields checks;
  const bool wanted = options_.verify && variant.spec().verifiable;
  if (wanted) {
    MakeReference(variant.the_case().batch, variant.loss_scale());
    const Batch batch = variant.the_case().batch.NewBatch(trainer_.device());
    source_.Fill(trainer_.group().rank(), kCheckStep, batch);
    variant.StepFromStart(batch);
    const auto step_again = [&] {
      trainer_.Restart();
      trainer_.StepOptimizer();
    };
    const Verdict verdict =
        Verify(trainer_.params(), reference_, step_again, ToleranceOf(variant), trainer_.group());
    trainer_.group().Clear();
    SetChecks(verdict, checks);
    if (first_fault_.empty() && !variant.spec().drifts()) first_fault_ = Fault(variant.spec().name, verdict);
  }
  checks.Set("reference", wanted ? "single_process" : "none");
  return checks;
}

// Unless there is one for such batches already: all ranks restart; rank 0 then computes a check's gradients
// alone, on the batches of all ranks.
void Verifier::MakeReference(const BatchShape& shape, double loss_scale) {
  comm::RecordingProcessGroup& group = trainer_.group();
  // A power of two rounds nothing: one reference is good for all strategies.
  if (std::has_single_bit(static_cast<unsigned>(group.size()))) loss_scale = 1;
  const std::pair of(shape, loss_scale);
  if (reference_of_ == of) return;
  reference_ = {};  // Its memory is needed for the next one.
  trainer_.Restart();
  OnRankZero(group, trainer_.device(), options_.ranks.timeout / 4, [&] {
    std::vector<Batch> batches;
    for (int rank = 0; rank < group.size(); ++rank) {
      batches.push_back(shape.NewBatch(trainer_.device()));
      source_.Fill(rank, kCheckStep, batches.back());
    }
    trainer_.GradientsAlone(batches, loss_scale);
    reference_ = CopyGrads(trainer_.params());
  });
  group.Clear();
  reference_of_ = of;
}

double Verifier::ToleranceOf(const Variant& variant) const {
  const model::DType dtype = options_.element_type();
  const int num_ranks = trainer_.group().size();
  if (variant.spec().peer.empty()) return Tolerance(dtype, num_ranks);
  const int64_t positions = variant.the_case().positions * num_ranks;
  const double rounding = options_.tf32 ? Tf32PeerTolerance(positions) : PeerTolerance(dtype, positions);
  return std::max(rounding, variant.spec().min_tolerance);
}

}  // namespace gradsync::bench
