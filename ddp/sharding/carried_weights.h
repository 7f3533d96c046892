#pragma once

#include <vector>

#include "ddp/buckets/bucket.h"

namespace gradsync::ddp {

// Holds the whole weights of a model on every rank, although each rank updates only its own part of them.
// All-gathers send the updated parts to all ranks of the process group.
class CarriedWeights {
 public:
  // The first bucket of `plan` must have the parameters of the last layers. The caller must have padded each
  // bucket by PadToParts, to one part of equal size for each rank. `plan` and `group` must outlive this
  // object.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // Waits for pending all-gathers. If Place was called, copies the weights to the parameters' own memory;
  // after a failed all-gather, the weights are lost instead.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // Returns this rank's parts of the weights, one for each bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Makes the value of every parameter a view of this object's memory, without copying its elements. Until
  // Complete is called, Parameter::ForwardValue waits for the latest all-gather of the parameter's bucket.
  void Place();
  // Begins one all-gather of parts() for each bucket, the bucket of the first layers first. Call Wait before
  // the next change of parts().
  void Gather();
  // Waits for all all-gathers that Gather has begun.
  void Wait();
  // Waits for all all-gathers that Gather has begun. From Complete until the next Place,
  // Parameter::ForwardValue does not wait for all-gathers.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // the whole weights of each bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp
