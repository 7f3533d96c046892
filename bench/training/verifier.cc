#include "bench/training/verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "absl/strings/str_join.h"
#include "ddp/traits.h"
#include "model/base/error.h"
#include "model/random.h"

namespace gradsync::bench {
namespace {

using model::Batch;

// Every check takes this step's batch.
constexpr int64_t kCheckStep = 1;
// ResNet-50's rectifiers and batch norms make much of rounding errors: under PyTorch, with images of 64 to 96
// pixels and batches of 2 to 8, the gradients of f32 and of f64 differ by up to 0.04, where those of one rank
// and of all differ by 1.2 to 2. In bf16 those of PyTorch's autocast differ from gradsync's, and either's
// from f64's, by up to 1 or 2, which says nothing of a peer.
constexpr double kImagePeerTolerance = 0.25;

}  // namespace

bool IsSpotChecked(int64_t round, int variant, int64_t rounds_per_check, uint64_t seed) {
  const uint64_t stream = model::StreamOf(model::Purpose::kSpotChecks, static_cast<uint64_t>(variant));
  const uint32_t drawn = model::RandomWords(seed, stream, static_cast<uint64_t>(round / rounds_per_check))[0];
  return round % rounds_per_check == drawn % rounds_per_check;
}

bool Verifier::SpotCheck(Stepper& stepper, int64_t round) {
  const TrainingVariant& variant = stepper.variant();
  stepper.CompleteValues();
  const bool has_parts = variant.traits->shards_state;
  const std::vector<int> ranks =
      RanksThatDiffer(has_parts ? ValuesOf(trainer_.params()) : GradsOf(trainer_.params()), trainer_.group(),
                      trainer_.device());
  trainer_.group().Clear();
  if (!ranks.empty() && !variant.drifts())
    throw std::runtime_error(Join(variant.name(), ", timed step ", round, ", ", stepper.cell().name,
                                  ": after it the ", has_parts ? "weights" : "gradients", " of rank ",
                                  absl::StrJoin(ranks, ", "), " differ from those of the other ranks"));
  return ranks.empty();
}

CheckFields Verifier::Check(Stepper& stepper) {
  CheckFields checks;
  const TrainingVariant& variant = stepper.variant();
  const bool tells = !variant.is_peer() || (std::isfinite(variant.traits->twin_differs_by) &&
                                            !(plan_.on_images() && plan_.dtype == model::DType::kBF16));
  const bool wanted = plan_.verify && tells;
  const bool by_equation = !variant.is_peer() && variant.traits->reference != nullptr;
  if (wanted) {
    const Batch batch = stepper.cell().batch.NewBatch(trainer_.device());
    source_.Fill(trainer_.group().rank(), kCheckStep, batch);
    const Verdict verdict =
        by_equation ? CheckEquation(stepper, batch, trainer_) : CheckSingleProcess(stepper, batch);
    trainer_.group().Clear();
    SetChecks(verdict, checks);
    if (by_equation || !variant.drifts()) rank_.AddFault(Fault(variant.name(), verdict));
  }
  checks.Set("reference", !wanted ? "none" : by_equation ? "equation" : "single_process");
  return checks;
}

Verdict Verifier::CheckSingleProcess(Stepper& stepper, const Batch& batch) {
  MakeReference(stepper.cell(), stepper.loss_scale());
  stepper.StepFromStart(batch);
  const auto step_again = [&] {
    trainer_.Restart();
    trainer_.StepOptimizer(stepper.variant().clip_norm());
  };
  return Verify(trainer_.params(), reference_, step_again, ToleranceOf(stepper), trainer_.group());
}

// Unless there is one for such batches already: restarts, and computes a check's gradients alone, on the
// batches of all ranks.
void Verifier::MakeReference(const Cell& cell, double loss_scale) {
  const int num_ranks = trainer_.group().size();
  // A power of two rounds nothing: one reference is good for all strategies.
  if (std::has_single_bit(static_cast<unsigned>(num_ranks))) loss_scale = 1;
  const std::tuple of(cell.batch, cell.accumulation_steps, loss_scale);
  if (reference_of_ == of) return;
  reference_ = {};  // Its memory is needed for the next one.
  trainer_.Restart();
  std::vector<Batch> batches;
  for (int rank = 0; rank < num_ranks; ++rank) {
    batches.push_back(cell.batch.NewBatch(trainer_.device()));
    source_.Fill(rank, kCheckStep, batches.back());
  }
  trainer_.GradientsAlone(batches, cell.accumulation_steps, loss_scale);
  reference_ = CopyGrads(trainer_.params());
  trainer_.group().Clear();
  reference_of_ = of;
}

double Verifier::ToleranceOf(const Stepper& stepper) const {
  const model::DType dtype = plan_.dtype;
  const int num_ranks = trainer_.group().size();
  if (!stepper.variant().is_peer()) return Tolerance(dtype, num_ranks * stepper.cell().accumulation_steps);
  const int64_t positions = stepper.cell().positions * num_ranks;
  const double rounding =
      std::max(stepper.variant().traits->twin_differs_by,
               plan_.tf32 ? Tf32PeerTolerance(positions) : PeerTolerance(dtype, positions));
  return plan_.on_images() ? std::max(rounding, kImagePeerTolerance) : rounding;
}

}  // namespace gradsync::bench
