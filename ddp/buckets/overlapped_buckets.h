#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/interface/strategy.h"

namespace gradsync::ddp {

// The base class of strategies that send buckets (groups of gradients) while backward still runs. A derived
// class overrides Send, which starts the collective of a bucket. A derived class may override Receive, which
// ReceiveThrough calls when a bucket's collective is done. A bucket is sent as soon as its gradients are
// ready and all buckets before it in the plan have been sent, because all ranks must send in the same order.
class OverlappedBuckets : public Strategy {
 public:
  void BeginStep() override;
  void OnGradReady(model::Parameter& param) override;
  void Finish() override { ReceiveAll(); }
  BucketPlan plan() const override { return plan_; }

 protected:
  OverlappedBuckets(comm::ProcessGroup& group, BucketPlan plan);
  // Replaces the buckets by those of `plan`. If there are old buckets, `plan` must have exactly the
  // parameters that the old buckets have. Call SetPlan before the first BeginStep; or after a step's
  // collectives have been waited for, and before the next BeginStep.
  void SetPlan(BucketPlan plan);
  // Returns the parameters in the order in which their gradients became ready on rank 0 in this step. Rank 0
  // broadcasts its order of parameters, so all ranks must call AgreeOnReadyOrder, at the end of the same
  // step. AgreeOnReadyOrder throws CollectiveError if the broadcast fails.
  std::vector<model::Parameter*> AgreeOnReadyOrder();

  size_t bucket_of(const model::Parameter& param) const { return bucket_of_.at(&param); }
  bool has_bucket(const model::Parameter& param) const { return bucket_of_.contains(&param); }
  // Returns the number of buckets that have been sent since the last OverlappedBuckets::BeginStep.
  // ShardedStrategy::EndPass also calls OverlappedBuckets::BeginStep, so in a ShardedStrategy the number
  // counts the buckets of one pass.
  size_t num_sent() const { return works_.size(); }
  // Sends all unsent buckets from bucket 0 up to and including bucket i. The caller guarantees that the
  // gradients of these buckets are complete, even if OnGradReady has not been called for all of them.
  void SendThrough(size_t i);

  // Starts the collective that sends bucket i. Returns the collective's Work object, on which ReceiveThrough
  // waits.
  virtual comm::Work Send(size_t i) = 0;
  // ReceiveThrough calls Receive(i) when the collective of bucket i is done. A derived class overrides
  // Receive to use the collective's result.
  virtual void Receive(size_t /*i*/) {}

  // Waits for the collectives of the buckets from bucket 0 up to and including bucket i, in plan order. All
  // these buckets must have been sent before the call. When a bucket's collective is done, calls Receive with
  // the bucket's index. Skips buckets for which Receive has already been called since the last
  // OverlappedBuckets::BeginStep.
  void ReceiveThrough(size_t i);
  void ReceiveAll() { ReceiveThrough(plan_.buckets.size() - 1); }

  comm::ProcessGroup& group_;
  // The buckets, in the order in which Send sends them. In the strategy `powersgd`, Bucket::numel and
  // Bucket::offsets count the elements of the factor P instead of the gradient's elements. In the strategy
  // `topk`, Bucket::numel and Bucket::offsets count only the largest elements of a gradient. In both
  // strategies, a gradient that is sent whole counts with all its elements.
  BucketPlan plan_;

 private:
  std::unordered_map<const model::Parameter*, size_t> bucket_of_;
  std::vector<model::Parameter*> ready_;  // the parameters whose gradients are ready in this step, in order
  std::vector<size_t> missing_;           // number of gradients for which each bucket still waits
  std::vector<comm::Work> works_;         // the collectives of the buckets that have been sent
  size_t num_received_ = 0;
};

}  // namespace gradsync::ddp
