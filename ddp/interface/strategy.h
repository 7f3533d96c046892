#pragma once

#include <optional>
#include <span>
#include <vector>

#include "model/autograd.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

struct BucketPlan;  // ddp/buckets/bucket.h

// Synchronises the training of all ranks, usually by averaging gradients. A step has these calls:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); },
//            [&](const Parameter& p) { strategy.OnUse(p); });  // OnUse only if needs_use_hook()
//   strategy.Finish();
//   strategy.Update(optimizer);
//
// A step may have several passes (forward and backward of a part of the batch), whose gradients are added. If
// needs_every_pass() is false, the caller calls OnGradReady in the last pass only. If it is true, the caller
// calls OnGradReady in every pass, and EndPass after every pass except the last.
//
// A strategy of MakeStrategy throws std::logic_error, naming the parameter, if a gradient is ready for an
// unknown parameter, or not exactly once for each parameter.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Called before forward. A strategy that keeps gradients in buckets may make p.grad() a view of its bucket
  // here.
  virtual void BeginStep() {}
  // Called during backward, once for each parameter, as soon as its gradient is complete.
  virtual void OnGradReady(model::Parameter&) {}
  // Returns whether the strategy must be called before weights are read: in forward by Parameter::SetOnRead,
  // and in backward by OnUse (the argument on_use of Backward).
  virtual bool needs_use_hook() const { return false; }
  virtual void OnUse(const model::Parameter&) {}
  // Returns whether the caller must call OnGradReady in every pass of a step, and EndPass after every pass
  // except the last. When EndPass returns, no parameter has a gradient.
  virtual bool needs_every_pass() const { return false; }
  virtual void EndPass() {}
  // Called after backward. On return every p.grad() is what Update needs: the mean over ranks, unless the
  // strategy does the update itself, or averages weights and not gradients (local SGD).
  virtual void Finish() = 0;
  // Returns the squared Euclidean norm of the mean gradient of all `params`. Call it between Finish and
  // Update.
  virtual double SquaredNorm(std::span<model::Parameter* const> params);
  // Updates the weights of all ranks with their gradients times grad_scale. `optimizer` is for all
  // parameters, and must be the same object in every step. A strategy that shards the optimizer's state makes
  // its own optimizer for this rank's parts (Optimizer::ForParts), and takes only the learning rate from
  // `optimizer`. Throws InvalidInput for a scale other than 1 if Traits::can_clip is false.
  virtual void Update(model::Optimizer& optimizer, double grad_scale = 1) { optimizer.Step(grad_scale); }

  // Returns whether the weights are in memory that all ranks of a host share. The host then has one copy of
  // the weights, and no rank gathers weights.
  virtual bool places_values() const { return false; }
  // This rank's parts (shards) of the values and gradients of all parameters. An empty list `values` means
  // that the rank keeps whole values between steps; an empty list `grads` means whole gradients.
  struct Parts {
    std::vector<model::Tensor> values = {}, grads = {};
  };
  virtual Parts parts() const { return {}; }
  // Returns how many bytes less this rank sends in a step because it sends only the touched rows of
  // embeddings; nullopt if the strategy sends all rows.
  virtual std::optional<double> rows_save_bytes() const { return std::nullopt; }
  // Returns the multiplications that the update needs on the rank with the most of them, divided by the mean
  // over ranks. Returns nullopt if every rank updates all weights, or the ranks divide the work evenly.
  virtual std::optional<double> largest_work() const { return std::nullopt; }

  // Makes every p.grad() the whole mean over ranks, which needs time and memory. Only checks call this,
  // between Finish and Update; the result of Update stays the same.
  virtual void CompleteGradients() {}
  // Gathers the parts of all ranks, so that every p.value() is the whole value on this rank, and removes the
  // hooks of Parameter::SetOnRead. All ranks must call this, between steps. It needs time, and memory for the
  // whole values until the next step.
  virtual void CompleteValues() {}
  // Returns what the strategy keeps from step to step, for saving and loading, without the optimizer's state.
  virtual std::vector<model::NamedTensor> State() { return {}; }
  // Returns the strategy to its state before the first step, to start training again from other weights. All
  // ranks must call this. What ranks have agreed on, such as the order of buckets, may remain.
  virtual void Reset() {}

  // Returns the factor by which the caller multiplies the loss: 1 divided by the number of ranks if the
  // strategy sums gradients to get the mean; else 1.
  virtual double loss_scale() const { return 1.0; }
  // Returns the collectives of one step, in order, including those after the update. Benchmarks record it.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp
