#include "ddp/overlapped_buckets.h"

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

void OverlappedBuckets::BeginStep() {
  missing_.clear();
  for (const Bucket& bucket : plan_.buckets) missing_.push_back(bucket.params.size());
  works_.clear();
  num_received_ = 0;
}

void OverlappedBuckets::OnGradReady(model::Parameter& param) {
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
