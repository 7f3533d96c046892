#include "bench/training/verification/verifier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>

#include "absl/strings/str_join.h"
#include "ddp/interface/traits.h"
#include "ddp/lossy/reference.h"
#include "model/base/error.h"
#include "model/tensor/random.h"
#include "model/tensor/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::Batch;
using model::Parameter;
using model::Tensor;
using Tensors = std::vector<Tensor>;  // by parameter

// Every check uses the batch of this step.
constexpr int64_t kCheckStep = 1;
// The rectifiers and batch norms of ResNet-50 amplify rounding errors. In PyTorch, with images of 64 to 96
// pixels and batches of 2 to 8, gradients in f32 and in f64 differ by up to 0.04, and gradients of one rank
// and of all ranks differ by 1.2 to 2. In bf16, gradients of PyTorch's autocast, of gradsync and of f64
// differ from each other by up to 1 or 2, so a check would not be meaningful.
constexpr double kImagePeerTolerance = 0.25;

constexpr int kTurns = 2;

// Sums of f32 have another order than in the reference, and the factors of a matrix are only so well
// conditioned. What a strategy forgets or confuses is an error of more than a tenth; a mean that is not
// rounded to bf16, one of 2e-3.
constexpr double kGradientTolerance = 1e-3;
// By the second period, AdamW has made steps in either direction of gradients that are nearly zero.
constexpr double kWeightTolerance = 2e-2;

ddp::Reference::Vector Doubles(const Tensor& tensor) {
  return DispatchFloat(tensor.dtype(), "check", [&]<class T>() {
    const std::vector<T> values = tensor.ToVector<T>();
    return ddp::Reference::Vector(values.begin(), values.end());
  });
}

void Write(const ddp::Reference::Vector& values, const Tensor& tensor) {
  DispatchFloat(tensor.dtype(), "check", [&]<class T>() {
    const std::vector<T> narrow(values.begin(), values.end());
    tensor.CopyFrom(Tensor::From<T>(tensor.device(), tensor.shape(), std::span(narrow)));
  });
}

// Updates the weights with the parameters' current gradients, as a step of `variant` does.
void UpdateAs(const TrainingVariant& variant, Trainer& trainer) {
  trainer.StepOptimizer(variant.clip_norm(), variant.learning_rate());
}

class EquationCheck {
 public:
  EquationCheck(Stepper& stepper, const Batch& batch, Trainer& trainer)
      : stepper_(stepper), batch_(batch), trainer_(trainer), options_(stepper.variant().strategy_options()) {
    trainer_.Restart();
    start_ = CopyValues(params());
    std::vector<model::Shape> shapes;
    for (const Parameter* const param : params()) shapes.push_back(param->shape());
    reference_ = MakeReference(*stepper.variant().traits,
                               {shapes, [this](size_t p) { return Doubles(start_[p]); }, options_});
  }

  Agreement CheckGradients() {
    Agreement agreement{
        .replicas_equal = true, .tolerance = kGradientTolerance, .grad_source = "its equation's"};
    std::vector<Tensors> grads;
    for (int turn = 0; turn < kTurns; ++turn) {
      ComputeAlone();
      for (size_t p = 0; p < params().size(); ++p) Replace(p, params()[p]->grad());
      const Tensors expected = CopyGrads(params());
      TakeTurn(turn);
      grads.push_back(CopyGrads(params()));
      const LargestError worst =
          FindLargestError(grads.back(), expected, trainer_.group(), trainer_.device());
      if (turn == 0 || worst.error > agreement.grad_rel_error) {
        agreement.grad_rel_error = worst.error;
        agreement.worst_grad = params()[worst.index]->name();
      }
      agreement.replicas_equal =
          agreement.replicas_equal && EqualOnAllRanks(grads.back(), trainer_.group(), trainer_.device());
    }
    const Tensors values = CopyValues(params());
    agreement.replicas_equal =
        agreement.replicas_equal && EqualOnAllRanks(values, trainer_.group(), trainer_.device());
    trainer_.Restart();
    for (const Tensors& of_turn : grads) {
      for (size_t p = 0; p < params().size(); ++p) params()[p]->grad().CopyFrom(of_turn[p]);
      UpdateAs(stepper_.variant(), trainer_);
    }
    const LargestError worst =
        FindLargestError(values, CopyValues(params()), trainer_.group(), trainer_.device());
    agreement.param_rel_error = worst.error;
    agreement.worst_param = params()[worst.index]->name();
    return agreement;
  }

  Agreement CheckWeights() {
    for (int turn = 0; turn < kTurns; ++turn) {
      for (int64_t step = 0; step < stepper_.variant().period(); ++step) {
        ComputeAlone();
        UpdateAs(stepper_.variant(), trainer_);
      }
      for (size_t p = 0; p < params().size(); ++p) Replace(p, params()[p]->MutableValue());
    }
    const Tensors expected = Changes();
    for (int turn = 0; turn < kTurns; ++turn) TakeTurn(turn);
    const Tensors found = Changes();
    const LargestError worst = FindLargestError(found, expected, trainer_.group(), trainer_.device());
    return {.param_rel_error = worst.error,
            .worst_grad = params().front()->name(),
            .worst_param = params()[worst.index]->name(),
            .replicas_equal = EqualOnAllRanks(CopyValues(params()), trainer_.group(), trainer_.device()),
            .tolerance = kWeightTolerance,
            .param_source = "its equation"};
  }

 private:
  std::span<Parameter* const> params() const { return trainer_.params(); }

  void ComputeAlone() {
    trainer_.ComputeGradientsAlone({&batch_, 1}, stepper_.setting().accumulation_steps,
                                   stepper_.loss_scale());
  }
  void TakeTurn(int turn) {
    if (turn == 0) {
      stepper_.StepFromStart(batch_);
    } else {
      stepper_.StepOn(batch_);
    }
  }

  // What the reference makes of all ranks' tensors takes the place of each.
  void Replace(size_t p, const Tensor& tensor) {
    comm::ProcessGroup& group = trainer_.group();
    const Tensor all = Tensor::Empty(tensor.device(), {group.size() * tensor.numel()}, tensor.dtype());
    group.AllGather(tensor, all).Wait();
    const int owner = static_cast<int>(p % static_cast<size_t>(group.size()));
    if (group.rank() == owner) {
      std::vector<ddp::Reference::Vector> of_ranks;
      for (int rank = 0; rank < group.size(); ++rank)
        of_ranks.push_back(Doubles(all.Slice(rank * tensor.numel(), tensor.shape())));
      Write(reference_->Next(p, of_ranks), tensor);
    }
    group.Broadcast(tensor, owner).Wait();
    trainer_.group().Clear();
  }

  // How far the weights are from those of the start.
  Tensors Changes() const {
    Tensors changes = CopyValues(params());
    for (size_t p = 0; p < changes.size(); ++p) {
      Scale(changes[p], -1);
      AddTo(start_[p], changes[p]);
    }
    return changes;
  }

  Stepper& stepper_;
  const Batch& batch_;
  Trainer& trainer_;
  const ddp::StrategyOptions options_;
  Tensors start_;
  std::unique_ptr<ddp::Reference> reference_;
};

}  // namespace

Agreement CheckEquation(Stepper& stepper, const Batch& batch, Trainer& trainer) {
  EquationCheck check(stepper, batch, trainer);
  return stepper.variant().traits->agreement == ddp::Agreement::kDrifts ? check.CheckWeights()
                                                                        : check.CheckGradients();
}

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
    throw std::runtime_error(Join(variant.name(), ", timed step ", round, ", ", stepper.setting().name,
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
    const Batch batch = stepper.setting().batch.NewBatch(trainer_.device());
    source_.Fill(trainer_.group().rank(), kCheckStep, batch);
    const Agreement agreement =
        by_equation ? CheckEquation(stepper, batch, trainer_) : CheckSingleProcess(stepper, batch);
    trainer_.group().Clear();
    SetChecks(agreement, checks);
    if (by_equation || !variant.drifts()) rank_.AddFault(DescribeFault(variant.name(), agreement));
  }
  checks.Set("reference", !wanted ? "none" : by_equation ? "equation" : "single_process");
  return checks;
}

Agreement Verifier::CheckSingleProcess(Stepper& stepper, const Batch& batch) {
  MakeReference(stepper.setting(), stepper.loss_scale());
  stepper.StepFromStart(batch);
  const auto step_again = [&] {
    trainer_.Restart();
    UpdateAs(stepper.variant(), trainer_);
  };
  return Verify(trainer_.params(), reference_, step_again, ToleranceOf(stepper), trainer_.group());
}

// Computes the reference: restarts, and computes a check's gradients in one process on the batches of all
// ranks. Does nothing if there is a reference for such batches.
void Verifier::MakeReference(const Setting& setting, double loss_scale) {
  const int num_ranks = trainer_.group().size();
  // Multiplying by a power of two does not round, so one reference is correct for all strategies.
  if (std::has_single_bit(static_cast<unsigned>(num_ranks))) loss_scale = 1;
  const ReferenceKey of{setting.batch, setting.accumulation_steps, loss_scale};
  if (reference_of_ == of) return;
  reference_ = {};  // The memory is needed for the next reference.
  trainer_.Restart();
  std::vector<Batch> batches;
  for (int rank = 0; rank < num_ranks; ++rank) {
    batches.push_back(setting.batch.NewBatch(trainer_.device()));
    source_.Fill(rank, kCheckStep, batches.back());
  }
  trainer_.ComputeGradientsAlone(batches, setting.accumulation_steps, loss_scale);
  reference_ = CopyGrads(trainer_.params());
  trainer_.group().Clear();
  reference_of_ = of;
}

double Verifier::ToleranceOf(const Stepper& stepper) const {
  const model::DType dtype = plan_.dtype;
  const int num_ranks = trainer_.group().size();
  if (!stepper.variant().is_peer()) return Tolerance(dtype, num_ranks * stepper.setting().accumulation_steps);
  const int64_t positions = stepper.setting().positions * num_ranks;
  const double rounding =
      std::max(stepper.variant().traits->twin_differs_by,
               plan_.tf32 ? Tf32PeerTolerance(positions) : PeerTolerance(dtype, positions));
  return plan_.on_images() ? std::max(rounding, kImagePeerTolerance) : rounding;
}

}  // namespace gradsync::bench
