#ifndef GRADSYNC_DDP_STRATEGY_H_
#define GRADSYNC_DDP_STRATEGY_H_

#include <optional>
#include <span>
#include <vector>

#include "ddp/bucket.h"
#include "model/autograd.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

// A way to average gradients over ranks. A step is:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); },
//            [&](const Parameter& p) { strategy.OnUse(p); });                  // if it needs_use_hook()
//   strategy.Finish();
//   strategy.Update(optimizer);
//
// A step may have several passes of forward and backward, whose gradients add up. OnGradReady is called in
// the last pass only, unless the strategy needs_every_pass(): then it is called in every pass, and EndPass
// after every pass except the last.
//
// Strategies of MakeStrategy throw std::logic_error, naming the parameter, if a parameter is not ready
// exactly once in a step, or is unknown.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Called before forward. A strategy with its own storage for gradients places them there.
  virtual void BeginStep() {}
  // Called during backward, once for each parameter, as soon as its gradient is complete.
  virtual void OnGradReady(model::Parameter&) {}
  // Whether it needs calls before weights are read: in forward by Parameter::SetOnRead, in backward by OnUse,
  // Backward's on_use.
  virtual bool needs_use_hook() const { return false; }
  virtual void OnUse(const model::Parameter&) {}
  // Whether OnGradReady is called in every pass; if so, EndPass is called at the end of each pass except the
  // last. When EndPass returns, no parameter has a gradient.
  virtual bool needs_every_pass() const { return false; }
  virtual void EndPass() {}
  // Called after backward. On return every p.grad() is what Update needs: the mean over ranks, unless the
  // strategy does the update itself or lets replicas drift (local SGD).
  virtual void Finish() = 0;
  // Called between Finish and Update: the squared Euclidean norm of the mean gradient of all parameters,
  // `params`. The result is equal on all ranks.
  virtual double SquaredNorm(std::span<model::Parameter* const> params);
  // Updates the weights of all ranks with their gradients times grad_scale. `optimizer` is for all
  // parameters, and is the same in every step. A strategy with its own state makes an optimizer by ForParts,
  // and takes the learning rate from `optimizer` in each step. Throws InvalidInput for a scale other than 1
  // that its traits exclude.
  virtual void Update(model::Optimizer& optimizer, double grad_scale = 1) { optimizer.Step(grad_scale); }

  // Whether parameters' values are in memory that all ranks of a host share: then there is one copy of the
  // weights, and no rank gathers them.
  virtual bool places_values() const { return false; }
  // This rank's parts of values and gradients, if it keeps only parts from step to step. Empty: parameters
  // have whole ones.
  struct Parts {
    std::vector<model::Tensor> values = {}, grads = {};
  };
  virtual Parts parts() const { return {}; }
  // Bytes that this rank does not send in a step because rows are untouched; nullopt: it sends all rows.
  virtual std::optional<double> rows_save_bytes() const { return std::nullopt; }
  // The work of an update: the largest rank's over the mean of all ranks; nullopt: ranks share no work, or
  // share it evenly.
  virtual std::optional<double> largest_work() const { return std::nullopt; }

  // For checks, between Finish and Update, which is not affected. On return every p.grad() is the whole mean
  // over ranks. Takes time and memory.
  virtual void CompleteGradients() {}
  // Called between steps, on all ranks: on return every p.value() is whole, and reads have no hooks. Takes
  // time and memory, until the next step.
  virtual void CompleteValues() {}
  // The state that it keeps from step to step, or from period to period, for saving and loading. The
  // optimizer's state is not part of it.
  virtual std::vector<model::NamedTensor> State() { return {}; }
  // Resets to before the first step, on all ranks: training starts again from other weights. Agreements
  // between ranks, such as a layout, may stay.
  virtual void Reset() {}

  // The factor of the loss, for a strategy that averages by scaling the loss and summing.
  virtual double loss_scale() const { return 1.0; }
  // The collectives of one step, for the record, in order, including those after the update.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_STRATEGY_H_
