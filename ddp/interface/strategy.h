#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/autograd.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

struct BucketPlan;  // ddp/buckets/bucket.h

// A strategy averages gradients over ranks. A step has these calls:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); },
//            [&](const Parameter& p) { strategy.OnUse(p); });  // OnUse only if needs_use_hook()
//   strategy.Finish();
//   strategy.Update(optimizer);
//
// A step may have several passes of forward and backward, whose gradients are added. The caller calls
// OnGradReady in the last pass only. If needs_every_pass() is true, the caller calls OnGradReady in every
// pass, and EndPass after every pass except the last pass.
//
// A strategy that MakeStrategy made throws std::logic_error, naming the parameter, if a parameter is unknown,
// or is not ready exactly once in a step.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Called before forward. A strategy with its own storage for gradients places them there.
  virtual void BeginStep() {}
  // Called during backward, once for each parameter, as soon as its gradient is complete.
  virtual void OnGradReady(model::Parameter&) {}
  // Returns whether the strategy must be called before weights are read: in forward by Parameter::SetOnRead,
  // and in backward by OnUse (the argument on_use of Backward).
  virtual bool needs_use_hook() const { return false; }
  virtual void OnUse(const model::Parameter&) {}
  // Returns whether OnGradReady must be called in every pass. If true, EndPass must be called at the end of
  // each pass except the last pass. When EndPass returns, no parameter has a gradient.
  virtual bool needs_every_pass() const { return false; }
  virtual void EndPass() {}
  // Called after backward. On return every p.grad() is what Update needs: the mean over ranks, unless the
  // strategy does the update itself or lets replicas drift (local SGD).
  virtual void Finish() = 0;
  // Returns the squared Euclidean norm of the mean gradient of all parameters (`params`). Call this between
  // Finish and Update. The result is equal on all ranks.
  virtual double SquaredNorm(std::span<model::Parameter* const> params);
  // Updates the weights of all ranks with their gradients times grad_scale. `optimizer` is an optimizer for
  // all parameters, and every step must pass this object. A strategy that keeps the state itself makes an
  // optimizer with ForParts, and reads the learning rate of `optimizer` in each step. Throws InvalidInput for
  // a scale other than 1 if the traits exclude it.
  virtual void Update(model::Optimizer& optimizer, double grad_scale = 1) { optimizer.Step(grad_scale); }

  // Returns whether the values of parameters are in memory that all ranks of a host share. Then a host has
  // one copy of the weights, and no rank gathers weights.
  virtual bool places_values() const { return false; }
  // This rank's parts of values and gradients, if the strategy keeps only parts between steps. If the lists
  // are empty, parameters have whole values and gradients.
  struct Parts {
    std::vector<model::Tensor> values = {}, grads = {};
  };
  virtual Parts parts() const { return {}; }
  // Returns the number of bytes that this rank does not send in a step because rows are untouched; nullopt if
  // the strategy sends all rows.
  virtual std::optional<double> rows_save_bytes() const { return std::nullopt; }
  // Returns the work of an update on the rank that has most, divided by the mean of all ranks; nullopt if
  // ranks do not divide the update, or divide it evenly.
  virtual std::optional<double> largest_work() const { return std::nullopt; }

  // Makes every p.grad() the whole mean over ranks. Only checks call this, between Finish and Update; it does
  // not change the result of Update. This call needs time and memory.
  virtual void CompleteGradients() {}
  // Makes every p.value() whole, and removes hooks from reads. Call this between steps, on all ranks. This
  // call needs time, and memory until the next step.
  virtual void CompleteValues() {}
  // Returns the state that the strategy keeps between steps or periods, for saving and loading. The state
  // does not include the optimizer's state.
  virtual std::vector<model::NamedTensor> State() { return {}; }
  // Resets the strategy to its state before the first step, because training starts again from other weights.
  // All ranks must call this. What ranks have agreed on, such as a layout, may remain.
  virtual void Reset() {}

  // Returns the factor of the loss. A strategy that averages by scaling the loss and summing gradients
  // returns a factor other than 1.
  virtual double loss_scale() const { return 1.0; }
  // Returns the collectives of one step, in order, including collectives after the update. Records contain
  // this plan.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp
