#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/autograd.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

struct BucketPlan;  // ddp/buckets/bucket.h

// Synchronises the training of all ranks: most strategies average gradients over ranks in each step, some
// average weights every few steps. A step has these calls:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); },
//            [&](const Parameter& p) { strategy.OnUse(p); });  // OnUse only if needs_use_hook()
//   strategy.Finish();
//   strategy.Update(optimizer);
//
// The caller may split a step into several passes, each forward and backward of a part of the batch. The
// gradients of all passes are added. If needs_every_pass() is false, the caller calls OnGradReady in the last
// pass (forward and backward) only. If needs_every_pass() is true, the caller calls OnGradReady in every
// pass, and EndPass after every pass except the last.
//
// A strategy that MakeStrategy made throws an exception for some wrong calls (ddp/checked.h). OnGradReady
// throws std::logic_error, naming the parameter, for a parameter that the strategy does not train.
// OnGradReady also throws std::logic_error before the first BeginStep, and if it is called twice for a
// parameter in one pass. EndPass and Finish throw std::logic_error if OnGradReady has not been called in the
// pass for all parameters that the strategy trains.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // The caller calls BeginStep before the first forward of a step. A strategy that keeps gradients in buckets
  // may make each p.grad() a view of a bucket in BeginStep.
  virtual void BeginStep() {}
  // The caller calls OnGradReady for each unfrozen parameter once in the last pass, or once in every pass if
  // needs_every_pass() is true. The caller calls OnGradReady during backward, as soon as the parameter's
  // gradient is complete.
  virtual void OnGradReady(model::Parameter&) {}
  // Returns whether the caller must pass OnUse as the argument on_use of the function Backward. If OnUse is
  // passed, Backward calls OnUse before it reads a weight, so that the strategy can wait for this weight. In
  // forward, nobody calls OnUse: the strategy waits in functions, set by Parameter::SetOnRead, that each
  // Parameter::ForwardValue() calls first.
  virtual bool needs_use_hook() const { return false; }
  virtual void OnUse(const model::Parameter&) {}
  // Returns whether the caller must call OnGradReady in every pass of a step, and EndPass after every pass
  // except the last. If needs_every_pass() is true, the strategy sums the reduced gradients of all passes in
  // its own memory. If needs_every_pass() is true, EndPass makes has_grad() false for all parameters that the
  // strategy trains.
  virtual bool needs_every_pass() const { return false; }
  virtual void EndPass() {}
  // The caller calls Finish after the last backward of a step. When Finish returns, every p.grad() is the
  // mean over ranks, exact or approximate (Traits::agreement), unless the strategy is `none` or
  // Traits::owns_update is true.
  virtual void Finish() = 0;
  // Returns the squared Euclidean norm of the mean gradient of `params`; frozen parameters do not count.
  // `params` must contain all parameters that the strategy trains. If Traits::agreement is kDrifts, the
  // result is the squared norm of this rank's own gradient instead. SquaredNorm, which clipping needs, is
  // optional: in each step either all ranks call it, between Finish and Update, or no rank does. If
  // Traits::can_clip is false, SquaredNorm must not be called.
  virtual double SquaredNorm(std::span<model::Parameter* const> params);
  // Updates the weights with the gradients multiplied by grad_scale, for example to clip them. All ranks must
  // call Update. `optimizer` must be an optimizer for all parameters, and the same object in every step. A
  // strategy that shards the optimizer's state makes its own optimizer for this rank's parts, with the
  // settings of `optimizer` (Optimizer::ForParts). Once a strategy has made its own optimizer, Update takes
  // only the learning rate and the number of steps from `optimizer`. If Traits::can_clip is false, a strategy
  // that MakeStrategy made throws InvalidInput unless grad_scale is 1.
  virtual void Update(model::Optimizer& optimizer, double grad_scale = 1) { optimizer.Step(grad_scale); }

  // Returns whether the weights are, from the first BeginStep on, in memory that all ranks of a host share.
  // If places_values() is true, each host has one copy of the weights, and no rank gathers weights.
  virtual bool places_values() const { return false; }
  // This rank's parts (shards) of the values and gradients of all parameters, one tensor for each bucket. If
  // `values` is empty, the rank keeps no parts of values: it keeps all values whole, or the ranks of its host
  // have one common copy of all values in shared memory. If `grads` is empty, the rank keeps whole gradients.
  struct Parts {
    std::vector<model::Tensor> values = {}, grads = {};
  };
  virtual Parts parts() const { return {}; }
  // Returns how many bytes less a rank sends in a step, as a mean over ranks, because ranks send only the
  // touched rows of embeddings. The result is 0 in the first step, and does not count that ranks may have to
  // all-reduce whole gradients (TouchedRows). Returns nullopt if the strategy has no option `rows`, or the
  // value of the option is 0.
  virtual std::optional<double> rows_save_bytes() const { return std::nullopt; }
  // For the strategy `owned`, returns the busiest rank's multiplications in Muon's Newton-Schulz iterations,
  // divided by the mean over ranks; 1 without matrices. Other strategies return nullopt.
  virtual std::optional<double> largest_work() const { return std::nullopt; }

  // If Finish leaves a rank only parts of the mean gradient, or returns before its collectives are done,
  // CompleteGradients makes every p.grad() the whole mean over ranks. All ranks must call CompleteGradients,
  // between Finish and Update. CompleteGradients is for checks of gradients; training does not need it.
  // CompleteGradients does not change what Update computes.
  virtual void CompleteGradients() {}
  // Makes every p.value() the whole current value: gathers the parts if each rank has only a part of the
  // weights, and waits for gathers that still run. Removes the functions that the strategy has set by
  // Parameter::SetOnRead. All ranks must call CompleteValues, and not between a BeginStep and the Update of
  // its step. Before the first BeginStep, CompleteValues does not bring back weights from memory freed
  // because of StrategyOptions::is_alone. In the strategy `zero3`, CompleteValues may allocate memory for the
  // whole weights.
  virtual void CompleteValues() {}
  // Returns the tensors that the strategy keeps from step to step besides the weights, for saving and
  // loading. These tensors include the optimizer's state only if the strategy shards it; else the caller
  // saves that state.
  virtual std::vector<model::NamedTensor> State() { return {}; }
  // Resets the strategy to its state before the first step, so that the caller can train again from other
  // weights. Before writing other weights, the caller must call Parameter::TakeBack for each parameter;
  // otherwise a strategy may ignore the new weights. All ranks must call Reset. Reset may keep what the ranks
  // have agreed on in earlier steps, such as the order of buckets.
  virtual void Reset() {}

  // Returns the factor by which the caller multiplies the loss: 1 divided by the number of ranks if the
  // strategy only sums gradients over ranks, without a division; else 1.
  virtual double loss_scale() const { return 1.0; }
  // Returns the collectives that send gradients or weights in one step, in order, including those after the
  // update. A strategy that averages only every few steps (option `period`) returns the collectives of a step
  // in which it averages. Benchmarks compute from the collectives how many bytes a rank sends per step.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp
