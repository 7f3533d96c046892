#ifndef GRADSYNC_DDP_PLACED_BUCKETS_H_
#define GRADSYNC_DDP_PLACED_BUCKETS_H_

#include <vector>

#include "ddp/factory.h"
#include "ddp/overlapped_buckets.h"
#include "ddp/ready_order.h"
#include "ddp/touched_rows.h"

namespace gradsync::ddp {

// Gradients that live in buckets: kernels write them there, all-reduces run on them there, the optimizer
// reads them there, and nothing is copied. Buckets are filled in the order in which gradients became ready
// in the first step (rank 0's, broadcast), so that each is full as early as it can be. The first is small, to
// start the link early. None holds more than what follows it, because only the computation of that can hide
// it: so the last are small, down to one tensor, and of an embedding's gradient, the last of a language
// model, only the rows that are not zero are sent.
//
// The mean costs no pass over memory: the loss is divided by the world size, and all-reduces sum.
class PlacedBuckets : public OverlappedBuckets {
 public:
  void BeginStep() override;
  void OnGradReady(model::Parameter& param) override;
  double loss_scale() const override { return 1.0 / group_.size(); }

 protected:
  explicit PlacedBuckets(const StrategyContext& context);

  // Once in each step, when all buckets have been received: after the first step moves them.
  void AdoptLayout();

 private:
  comm::Work Send(size_t i) override;
  void Receive(size_t i) override;
  void Layout(const std::vector<model::Parameter*>& order);
  std::vector<TouchedRows>::iterator RowsOf(size_t i);

  const size_t bucket_bytes_;
  ReadyOrder ready_order_;
  model::Tensor storage_;               // of all buckets
  std::vector<model::Tensor> buffers_;  // views of it, by bucket
  std::vector<TouchedRows> rows_;       // of buckets that send them alone
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_PLACED_BUCKETS_H_
