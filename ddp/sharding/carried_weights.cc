#include "ddp/sharding/carried_weights.h"

namespace gradsync::ddp {

using model::Parameter;
using model::Tensor;

CarriedWeights::CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group)
    : plan_(plan),
      group_(group),
      weights_(PlaceBuffers(plan, MakeStorage(plan, group))),
      gatherings_(weights_.size()) {
  for (const Tensor& weights : weights_) {
    const int64_t numel = weights.numel() / group.size();
    parts_.push_back(weights.Slice(group.rank() * numel, {numel}));
  }
}

CarriedWeights::~CarriedWeights() {
  bool are_whole = true;
  try {
    Wait();
  } catch (const comm::CollectiveError&) {
    are_whole = false;
  }
  TakeBackValues(plan_, are_whole);
}

void CarriedWeights::Place() {
  for (size_t i = 0; i < weights_.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    for (size_t k = 0; k < bucket.params.size(); ++k) {
      bucket.params[k]->PlaceValue(bucket.View(weights_[i], k));
      bucket.params[k]->SetOnRead([this, i] { gatherings_[i].Wait(); });
    }
  }
}

void CarriedWeights::Gather() {
  for (size_t i = weights_.size(); i-- > 0;) gatherings_[i] = group_.AllGather(parts_[i], weights_[i]);
}

void CarriedWeights::Wait() {
  for (comm::Work& gathering : gatherings_) gathering.Wait();
}

void CarriedWeights::Complete() {
  Wait();
  for (const Bucket& bucket : plan_.buckets) {
    for (Parameter* const param : bucket.params) {
      param->SetOnRead({});
      param->MutableValue();  // Other ranks have also changed the value.
    }
  }
}

}  // namespace gradsync::ddp
