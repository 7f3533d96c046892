#ifndef GRADSYNC_DDP_PLACED_BUCKETS_H_
#define GRADSYNC_DDP_PLACED_BUCKETS_H_

#include <optional>
#include <vector>

#include "ddp/bucket.h"
#include "ddp/factory.h"
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
// All-reduces sum: for a mean, the loss is divided by the world size.
class PlacedBuckets {
 public:
  explicit PlacedBuckets(const StrategyContext& context);

  const BucketPlan& plan() const { return plan_; }

  // In each step, in this order: puts gradients to their places;
  void Begin();
  // takes a gradient that is ready, and sends every bucket that is full;
  void OnGradReady(model::Parameter& param);
  // returns when the gradients of buckets up to the i-th are sums over ranks;
  void WaitThrough(size_t i);
  // once all of them are: after the first step moves the buckets.
  void End();

 private:
  comm::Work Send(size_t i);
  void Layout(const std::vector<model::Parameter*>& order);
  std::vector<TouchedRows>::iterator RowsOf(size_t i);

  comm::ProcessGroup& group_;
  const size_t bucket_bytes_;
  ReadyOrder ready_order_;
  BucketPlan plan_;
  model::Tensor storage_;               // of all buckets
  std::vector<model::Tensor> buffers_;  // views of it, by bucket
  std::vector<TouchedRows> rows_;       // of buckets that send them alone
  std::vector<comm::Work> works_;       // of the buckets that have been sent
  size_t num_done_ = 0;                 // so many of them have been waited for
  std::optional<InOrderLauncher> launcher_;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_PLACED_BUCKETS_H_
