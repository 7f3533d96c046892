#pragma once

#include <vector>

#include "ddp/buckets/bucket.h"

namespace gradsync::ddp {

// A CarriedWeights object holds the whole weights on every rank, but each rank updates only its own part of
// them. All-gathers of the updated parts may still run when forward begins: each read of a parameter
// (Parameter::ForwardValue) waits for the all-gather of the parameter's bucket.
class CarriedWeights {
 public:
  // The buckets of `plan` are in reverse forward order: the bucket of the last layers is the first. Each
  // bucket is padded so that all ranks have parts of equal size. `plan` and `group` must outlive this object.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // The destructor waits for pending all-gathers, and moves the weights to the parameters' own memory. If any
  // all-gather has failed, all trained weights are lost, and the parameters have the values that were left in
  // their own memory.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // Returns this rank's parts of the weights, one for each bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Makes every p.value() a view of this object's memory, into which Gather writes; copies no elements. Place
  // also sets functions (Parameter::SetOnRead) that make each read of a parameter wait for the latest
  // all-gather of the parameter's bucket. Complete removes these functions.
  void Place();
  // Begins an all-gather of the ranks' parts of the weights (parts()) for each bucket, the first layers'
  // bucket first. Call Wait before an update writes parts(), because the all-gathers read parts().
  void Gather();
  // Waits for all all-gathers that Gather has begun.
  void Wait();
  // Waits for all all-gathers that Gather has begun. Later reads of parameters do not wait: Complete removes
  // the functions that Place has set.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // views of one storage, by bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp
