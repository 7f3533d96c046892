#ifndef GRADSYNC_DDP_STRATEGY_H_
#define GRADSYNC_DDP_STRATEGY_H_

#include "ddp/bucket.h"
#include "model/autograd.h"

namespace gradsync::ddp {

// One way of averaging gradients over ranks. A step is:
//
//   strategy.BeginStep();
//   loss = Scale(forward(...), strategy.loss_scale());
//   Backward(loss, params, [&](Parameter& p) { strategy.OnGradReady(p); });
//   strategy.Finish();
//   optimizer.Step();
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
  // After backward. On return every p.grad() is the mean over ranks (except with `none`).
  virtual void Finish() = 0;

  // What the loss has to be multiplied by, for a strategy that averages by scaling the loss and summing.
  virtual double loss_scale() const { return 1.0; }
  // The collectives of one step, for the record: what is sent together, in which order.
  virtual BucketPlan plan() const = 0;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_STRATEGY_H_
