#ifndef GRADSYNC_DDP_STRATEGY_H_
#define GRADSYNC_DDP_STRATEGY_H_

#include <optional>
#include <span>
#include <vector>

#include "ddp/bucket.h"
#include "model/autograd.h"
#include "model/optimizer.h"

namespace gradsync::ddp {

// One way of averaging gradients over ranks. A step is:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); },
//            [&](const Parameter& p) { strategy.OnUse(p); });                  // if it needs_use_hook()
//   strategy.Finish();
//   strategy.Update(optimizer);
//
// A step may have several passes of forward and backward, whose gradients add up. A strategy hears of the
// last one's, unless it needs_every_pass(): then each of the others is a Backward with that hook and
// EndPass().
//
// Those that MakeStrategy makes throw std::logic_error, naming the parameter, if one that they were made with
// is not ready exactly once in a step, or another is.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Before forward: a strategy that keeps gradients in storage of its own puts them there.
  virtual void BeginStep() {}
  // During backward, once for each parameter, as soon as its gradient is complete.
  virtual void OnGradReady(model::Parameter&) {}
  // Whether it hears of weights that are about to be read: in forward by Parameter::SetOnRead, in backward by
  // OnUse, Backward's on_use.
  virtual bool needs_use_hook() const { return false; }
  virtual void OnUse(const model::Parameter&) {}
  // Whether gradients of every pass are for it; if so, the end of each pass but the last. On return no p has
  // a gradient.
  virtual bool needs_every_pass() const { return false; }
  virtual void EndPass() {}
  // After backward. On return every p.grad() is what Update needs: the mean over ranks, unless the strategy
  // owns the update or drifts.
  virtual void Finish() = 0;
  // Between Finish and Update: the squared Euclidean norm of the mean gradient of all parameters, `params`,
  // the same number on all ranks.
  virtual double SquaredNorm(std::span<model::Parameter* const> params);
  // Changes the weights of all ranks by their gradients, each of which counts grad_scale times. `optimizer`
  // is of all parameters, the same in every step. A strategy that owns its state makes itself one like that
  // by ForParts, and takes the learning rate from it in each step. Throws InvalidInput for a scale other than
  // 1 that its traits rule out.
  virtual void Update(model::Optimizer& optimizer, double grad_scale = 1) { optimizer.Step(grad_scale); }

  // Whether parameters' values live in memory that all ranks of a host share: then there is one copy of the
  // weights, and no rank gathers them.
  virtual bool places_values() const { return false; }
  // This rank's parts of values and of gradients, if it keeps no more than them from step to step. Empty:
  // they are whole, where parameters have them.
  struct Parts {
    std::vector<model::Tensor> values = {}, grads = {};
  };
  virtual Parts parts() const { return {}; }
  // How many bytes less this rank sends in a step because untouched rows are left out; nullopt: none are.
  virtual std::optional<double> rows_save_bytes() const { return std::nullopt; }

  // For checks, between Finish and Update, which goes on as usual. On return every p.grad() is the whole
  // mean over ranks. Takes time and memory.
  virtual void CompleteGradients() {}
  // Between steps, on all ranks: on return every p.value() is whole, and no read is heard. Takes time and
  // memory, until the next step.
  virtual void CompleteValues() {}
  // What it remembers from step to step, or from one period to the next: to save and to load. The optimizer's
  // own is not part of it.
  virtual std::vector<model::NamedTensor> State() { return {}; }
  // Back to before the first step, on all ranks: training starts again from other weights. What ranks have
  // agreed on, such as a layout, may stay.
  virtual void Reset() {}

  // What the loss has to be multiplied by, for a strategy that averages by scaling the loss and summing.
  virtual double loss_scale() const { return 1.0; }
  // The collectives of one step, for the record: what is sent together, in which order, after the update too.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_STRATEGY_H_
