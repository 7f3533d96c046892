#include "bench/training/verifier.h"

#include <algorithm>
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
    MakeReference(variant.the_case().batch);
    const Batch batch = variant.the_case().batch.NewBatch(trainer_.device());
    source_.Fill(trainer_.group().rank(), kCheckStep, batch);
    variant.StepFromStart(batch);
    const Verdict verdict = Verify(trainer_.params(), reference_, ToleranceOf(variant), trainer_.group());
    trainer_.group().Clear();
    SetChecks(verdict, checks);
    if (first_fault_.empty() && !variant.spec().drifts()) first_fault_ = Fault(variant.spec().name, verdict);
  }
  checks.Set("reference", wanted ? "single_process" : "none");
  return checks;
}

// Unless there is one for such batches already: all ranks restart; rank 0 then takes a check's step
// alone, on the batches of all ranks.
void Verifier::MakeReference(const BatchShape& shape) {
  if (reference_shape_ == shape) return;
  reference_ = {};  // Its memory is needed for the next one.
  trainer_.Restart();
  comm::RecordingProcessGroup& group = trainer_.group();
  OnRankZero(group, trainer_.device(), options_.ranks.timeout / 4, [&] {
    std::vector<Batch> batches;
    for (int rank = 0; rank < group.size(); ++rank) {
      batches.push_back(shape.NewBatch(trainer_.device()));
      source_.Fill(rank, kCheckStep, batches.back());
    }
    trainer_.StepAlone(batches);
    reference_ = CopyState(trainer_.params());
  });
  group.Clear();
  reference_shape_ = shape;
}

double Verifier::ToleranceOf(const Variant& variant) const {
  const int64_t positions = variant.the_case().positions * trainer_.group().size();
  const double rounding =
      options_.tf32 ? Tf32Tolerance(positions) : Tolerance(options_.element_type(), positions);
  return std::max(rounding, variant.spec().min_tolerance);
}

}  // namespace gradsync::bench
