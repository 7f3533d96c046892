#include "ddp/buckets/overlapped_buckets.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace gradsync::ddp {

OverlappedBuckets::OverlappedBuckets(comm::ProcessGroup& group, BucketPlan plan) : group_(group) {
  SetPlan(std::move(plan));
}

void OverlappedBuckets::SetPlan(BucketPlan plan) {
  plan_ = std::move(plan);
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    for (const model::Parameter* const param : plan_.buckets[i].params) bucket_of_[param] = i;
  }
}

std::vector<model::Parameter*> OverlappedBuckets::AgreeOnReadyOrder() {
  std::vector<model::Parameter*> params;  // in an order that all ranks have
  for (const Bucket& bucket : plan_.buckets)
    params.insert(params.end(), bucket.params.begin(), bucket.params.end());
  std::vector<int32_t> order;
  for (const model::Parameter* const param : ready_)
    order.push_back(static_cast<int32_t>(std::ranges::find(params, param) - params.begin()));
  const model::Tensor agreed = model::Tensor::From<int32_t>(
      params.front()->device(), {static_cast<int64_t>(order.size())}, std::span<const int32_t>(order));
  group_.Broadcast(agreed, 0).Wait();
  std::vector<model::Parameter*> in_order;
  for (const int32_t i : agreed.ToVector<int32_t>()) in_order.push_back(params.at(static_cast<size_t>(i)));
  return in_order;
}

void OverlappedBuckets::BeginStep() {
  ready_.clear();
  missing_.clear();
  for (const Bucket& bucket : plan_.buckets) missing_.push_back(bucket.params.size());
  works_.clear();
  num_received_ = 0;
}

void OverlappedBuckets::OnGradReady(model::Parameter& param) {
  ready_.push_back(&param);
  --missing_[bucket_of_.at(&param)];
  for (size_t next = works_.size(); next < missing_.size() && missing_[next] == 0; ++next)
    works_.push_back(Send(next));
}

void OverlappedBuckets::SendThrough(size_t i) {
  while (num_sent() <= i) works_.push_back(Send(num_sent()));
}

void OverlappedBuckets::ReceiveThrough(size_t i) {
  for (; num_received_ <= i; ++num_received_) {
    works_[num_received_].Wait();
    Receive(num_received_);
  }
}

}  // namespace gradsync::ddp
