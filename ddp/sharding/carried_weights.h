#pragma once

#include <vector>

#include "ddp/buckets/bucket.h"

namespace gradsync::ddp {

// Whole weights on every rank, of which each rank updates one part. The parts of the other ranks arrive
// during the next forward: a read of a parameter waits for the all-gather of its bucket.
class CarriedWeights {
 public:
  // `plan` has buckets in reverse forward order, padded so that each rank has an equal part. `plan` and
  // `group` must outlive this object.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // Waits for pending gathers, and leaves the weights in the parameters' own memory.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // Returns this rank's parts of the weights, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Moves the parameters' values into this object's memory. From now on, each read waits for the all-gather.
  void Place();
  // Starts to gather the parts, those of the first layers first. Call Wait before this.
  void Gather();
  // Waits for all gathers.
  void Wait();
  // Waits for all gathers, so that later reads need not wait.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // views of one storage, by bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp
