#ifndef GRADSYNC_DDP_CARRIED_WEIGHTS_H_
#define GRADSYNC_DDP_CARRIED_WEIGHTS_H_

#include <vector>

#include "ddp/bucket.h"

namespace gradsync::ddp {

// Whole weights of every rank, of which each rank updates a part. The others' parts travel while the next
// forward runs: whoever reads a parameter waits for its bucket.
class CarriedWeights {
 public:
  // `plan`: padded buckets, in reverse forward order. Both must outlive this.
  CarriedWeights(const BucketPlan& plan, comm::ProcessGroup& group);
  // Leaves the weights in memory of the parameters' own, for which it waits for those on their way.
  ~CarriedWeights();
  CarriedWeights(const CarriedWeights&) = delete;
  CarriedWeights& operator=(const CarriedWeights&) = delete;

  // This rank's parts, by bucket.
  const std::vector<model::Tensor>& parts() const { return parts_; }
  // Parameters' values are here from now on, and reads wait.
  void Place();
  // Begins to gather what is in the parts, the first layers' first. Not before Wait.
  void Gather();
  // For all that has been gathered.
  void Wait();
  // The same, and reads wait no more.
  void Complete();

 private:
  const BucketPlan& plan_;
  comm::ProcessGroup& group_;
  const std::vector<model::Tensor> weights_;  // views of one storage, by bucket
  std::vector<model::Tensor> parts_;
  std::vector<comm::Work> gatherings_;
};

}  // namespace gradsync::ddp

#endif  // GRADSYNC_DDP_CARRIED_WEIGHTS_H_
