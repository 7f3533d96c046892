#pragma once

#include <vector>

#include "ddp/bucket.h"

namespace gradsync::ddp {

// Whole weights on every rank; each rank updates one part. The other parts are gathered during the next
// forward: a read of a parameter waits for its bucket.
class CarriedWeights {
 public:
  // `plan`: padded buckets, in reverse forward order. Both must outlive this.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // Waits for pending gathers, and leaves the weights in the parameters' own memory.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // This rank's parts, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Moves parameters' values here; from now on reads wait.
  void Place();
  // Starts to gather the parts, first layers first. Call Wait before.
  void Gather();
  // Waits for all gathers.
  void Wait();
  // Waits for all gathers; later reads do not wait.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // views of one storage, by bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp
