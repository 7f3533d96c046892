#ifndef GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_
#define GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "tools/predict/network.h"
#include "tools/predict/step.h"
#include "tools/statistics/estimates.h"

// What tools/record_torch.py wrote of a PyTorch model, and what DistributedDataParallel (DDP) will take for
// it. Fields have the file's names, which are explained at the head of record_torch.py.
namespace gradsync::tools {

struct TorchCollectives {
  std::string kind;
  int in_flight = 1;
  std::vector<double> bytes, ns, in_ns, out_ns;
  double wall_ns = 0, cpu_ns = 0;
};

struct TorchStep {
  std::string mode;
  size_t row = 0;
  double begin_ns = 0, before_ns = 0, backward_ns = 0, copy_back_ns = 0, rest_ns = 0, optimizer_ns = 0,
         step_ns = 0;
  std::vector<double> ready_ns;
  TorchCollectives collectives;
};

struct TorchParameter {
  std::string name;
  int64_t numel = 0;
  double bytes = 0;
};

// Settings of DDP.
struct DdpRow {
  std::string name;
  double bucket_bytes = 25 << 20, first_bucket_bytes = 1 << 20;
  bool views = false, bf16 = false, zero1 = false;
  int64_t passes = 1;
  std::vector<double> rebuilt_bucket_bytes = {};
};

struct TorchLaunch {
  int gradsync_torch = 0;  // the version of what it says
  std::string device, backend, optimizer;
  int64_t world_size = 1, threads = 1, cores = 1, passes = 1;
  double link_rate = 0;  // bits a second; 0: unknown
  bool views = false;
  std::vector<std::string> hosts;  // by rank
  std::vector<TorchParameter> parameters;
  std::vector<DdpRow> rows;
  std::vector<std::vector<TorchStep>> ranks;  // steps by rank
};

// The parameters of each of DDP's buckets, after it has rebuilt them: in the order in which they are ready,
// each is added to a bucket, which is closed when it has reached its size.
std::vector<std::vector<size_t>> DdpBuckets(const std::vector<double>& bytes,
                                            const std::vector<size_t>& order, double first_bucket_bytes,
                                            double bucket_bytes);

// The largest part of the optimizer's work that ZeroRedundancyOptimizer gives a rank: the largest parameter
// first, each to the rank that has least.
double LargestZero1Share(const std::vector<TorchParameter>& parameters, int64_t world_size);

class TorchProfile;

// Where the answer is to hold, if not where it was recorded.
struct Elsewhere {
  int64_t world_size = 0, ranks_per_host = 1;  // 0: as recorded
  std::optional<Wire> wire = {};               // between all ranks
  const TorchProfile* link_of = nullptr;       // or the link of another recording
  double none_s = 0;                           // the step without synchronisation there; 0: as recorded
  double pace = 1;                             // how many times as long collectives take

  bool is_given() const { return world_size > 0 || wire || link_of != nullptr || none_s > 0; }
};

// The launches of one model.
class TorchProfile {
 public:
  // One launch from each line. Throws InvalidInput, which names `source` and the line, for anything that is
  // no such launch, and where launches are not of the same model, world and device.
  TorchProfile(std::istream& lines, const std::string& source);

  const std::vector<TorchLaunch>& launches() const { return launches_; }
  double total_bytes() const;  // of all parameters' gradients
  // DDP's buckets, in the order of issue.
  std::vector<PlannedBucket> Buckets(const DdpRow& row) const;

  // What was measured: the step of a mode ("none"), of "ddp" that with the settings of this name. NaN without
  // such steps.
  Estimate Measured(const std::string& mode, const std::string& row = "") const;
  // What a step with these settings should take, of `row.passes` passes. No step of DDP enters. Throws
  // InvalidInput if nothing was communicated and `elsewhere` has no link.
  Prediction Predict(const DdpRow& row, const Elsewhere& elsewhere = {}) const;

 private:
  std::vector<TorchLaunch> launches_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_
