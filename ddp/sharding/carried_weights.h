#pragma once

#include <vector>

#include "ddp/buckets/bucket.h"

namespace gradsync::ddp {

// Holds whole weights on every rank, of which each rank updates one part. The parts of the other ranks arrive
// during the next forward: a read of a parameter waits for the all-gather of its bucket.
class CarriedWeights {
 public:
  // `plan` has buckets of weights in reverse forward order, padded so that all ranks have parts of equal
  // size. `plan` and `group` must outlive this object.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // Waits for pending gathers, and leaves the weights in the parameters' own memory.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // Returns this rank's parts of the weights, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Makes every p.value() a view of this object's memory, into which Gather writes; copies no elements. Until
  // Complete, each read of a parameter waits for the last all-gather of its bucket.
  void Place();
  // Begins to all-gather the ranks' parts(), the buckets of the first layers first. Call Wait before an
  // update writes parts(), because the gathers of the last call read them.
  void Gather();
  // Waits for all gathers that Gather has begun.
  void Wait();
  // Waits for all gathers that Gather has begun, and removes the hooks, so that later reads need not wait.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // views of one storage, by bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp
