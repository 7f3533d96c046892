#include <memory>
#include <span>
#include <vector>

#include "bench/training/verifier.h"
#include "ddp/reference.h"
#include "model/tensor_ops.h"

namespace gradsync::bench {
namespace {

using model::Parameter;
using model::Tensor;
using Tensors = std::vector<Tensor>;  // by parameter

constexpr int kTurns = 2;

// Sums of f32 have another order than in the reference, and the factors of a matrix may be ill-conditioned. A
// missing or exchanged term is an error of more than 0.1, and a mean that is not rounded to bf16 is an error
// of 2e-3.
constexpr double kGradientTolerance = 1e-3;
// Before the second period, AdamW has made steps in random directions for gradients that are nearly zero.
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

class EquationCheck {
 public:
  EquationCheck(Stepper& stepper, const model::Batch& batch, Trainer& trainer)
      : stepper_(stepper), batch_(batch), trainer_(trainer), options_(stepper.variant().strategy_options()) {
    trainer_.Restart();
    start_ = CopyValues(params());
    std::vector<model::Shape> shapes;
    for (const Parameter* const param : params()) shapes.push_back(param->shape());
    reference_ = MakeReference(*stepper.variant().traits,
                               {shapes, [this](size_t p) { return Doubles(start_[p]); }, options_});
  }

  Verdict OfGradients() {
    Verdict verdict{.replicas_equal = true, .tolerance = kGradientTolerance, .grad_source = "its equation's"};
    std::vector<Tensors> grads;
    for (int turn = 0; turn < kTurns; ++turn) {
      ComputeAlone();
      for (size_t p = 0; p < params().size(); ++p) Replace(p, params()[p]->grad());
      const Tensors expected = CopyGrads(params());
      TakeTurn(turn);
      grads.push_back(CopyGrads(params()));
      const LargestError worst = LargestErrorOf(grads.back(), expected, trainer_.group(), trainer_.device());
      if (turn == 0 || worst.error > verdict.grad_rel_error) {
        verdict.grad_rel_error = worst.error;
        verdict.worst_grad = params()[worst.index]->name();
      }
      verdict.replicas_equal =
          verdict.replicas_equal && EqualOnAllRanks(grads.back(), trainer_.group(), trainer_.device());
    }
    const Tensors values = CopyValues(params());
    verdict.replicas_equal =
        verdict.replicas_equal && EqualOnAllRanks(values, trainer_.group(), trainer_.device());
    trainer_.Restart();
    for (const Tensors& of_turn : grads) {
      for (size_t p = 0; p < params().size(); ++p) params()[p]->grad().CopyFrom(of_turn[p]);
      trainer_.StepOptimizer(stepper_.variant().clip_norm());
    }
    const LargestError worst =
        LargestErrorOf(values, CopyValues(params()), trainer_.group(), trainer_.device());
    verdict.param_rel_error = worst.error;
    verdict.worst_param = params()[worst.index]->name();
    return verdict;
  }

  Verdict OfWeights() {
    for (int turn = 0; turn < kTurns; ++turn) {
      for (int64_t step = 0; step < stepper_.variant().period(); ++step) {
        ComputeAlone();
        trainer_.StepOptimizer(stepper_.variant().clip_norm());
      }
      for (size_t p = 0; p < params().size(); ++p) Replace(p, params()[p]->MutableValue());
    }
    const Tensors expected = Changes();
    for (int turn = 0; turn < kTurns; ++turn) TakeTurn(turn);
    const Tensors found = Changes();
    const LargestError worst = LargestErrorOf(found, expected, trainer_.group(), trainer_.device());
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
    trainer_.GradientsAlone({&batch_, 1}, stepper_.cell().accumulation_steps, stepper_.loss_scale());
  }
  void TakeTurn(int turn) { turn == 0 ? stepper_.StepFromStart(batch_) : stepper_.StepOn(batch_); }

  // Replaces the tensor of each rank by the reference's result for the tensors of all ranks.
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

  // Returns the differences of the weights to the weights at the start.
  Tensors Changes() const {
    Tensors changes = CopyValues(params());
    for (size_t p = 0; p < changes.size(); ++p) {
      Scale(changes[p], -1);
      AddTo(start_[p], changes[p]);
    }
    return changes;
  }

  Stepper& stepper_;
  const model::Batch& batch_;
  Trainer& trainer_;
  const ddp::StrategyOptions options_;
  Tensors start_;
  std::unique_ptr<ddp::Reference> reference_;
};

}  // namespace

Verdict CheckEquation(Stepper& stepper, const model::Batch& batch, Trainer& trainer) {
  EquationCheck check(stepper, batch, trainer);
  return stepper.variant().traits->agreement == ddp::Agreement::kDrifts ? check.OfWeights()
                                                                        : check.OfGradients();
}

}  // namespace gradsync::bench
