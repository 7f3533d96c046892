#ifndef GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_
#define GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "tools/predict/network.h"
#include "tools/predict/step.h"
#include "tools/statistics/estimates.h"

// What tools/pytorch/gradsync/record.py wrote of a PyTorch model, and what DistributedDataParallel (DDP) will
// take for it. Fields have the file's names; times are nanoseconds.
namespace gradsync::tools {

// The collectives of a probe.
struct TorchCollectives {
  std::string kind;                       // all_reduce, bf16, or zero1: ZeroRedundancyOptimizer's broadcasts
  int in_flight = 1;                      // one after the other; 0: all at once
  std::vector<double> bytes;              // of each, in the model's dtype
  std::vector<double> ns, in_ns, out_ns;  // of each, if one by one; bf16: of its casts
  double wall_ns = 0, cpu_ns = 0;         // of all; of the process meanwhile
};

struct TorchStep {
  std::string mode;     // none, probe or ddp
  size_t row = 0;       // of ddp: its settings
  double begin_ns = 0;  // by the host's clock, from which all others count
  // To the last backward, that, copies back of a probe, from communication to the optimizer, and that.
  double before_ns = 0, backward_ns = 0, copy_back_ns = 0, rest_ns = 0, optimizer_ns = 0, step_ns = 0;
  std::vector<double> ready_ns;  // by parameter, since backward began; -1: no gradient
  TorchCollectives collectives;
};

// One that is trained; of the module's order, tied ones once.
struct TorchParameter {
  std::string name;
  int64_t numel = 0;
  double bytes = 0;
};

// Settings of DDP.
struct DdpRow {
  std::string name;
  double bucket_bytes = 25 << 20, first_bucket_bytes = 1 << 20;
  bool bf16 = false, zero1 = false;
  int64_t passes = 1;
  std::vector<double> rebuilt_bucket_bytes = {};  // what DDP made of them
};

struct TorchLaunch {
  int gradsync_torch = 0;                                      // the version of what it says
  std::string device, backend, optimizer;                      // "cpu" or the GPU
  std::vector<std::string> command;                            // of the script: its steps depend on it
  int64_t world_size = 1, threads = 1, cores = 1, passes = 1;  // threads of a rank, cores of a host
  double link_rate = 0;            // bits a second, if GRADSYNC_LINK_RATE told; 0: unknown
  bool views = false;              // whether probes leave views
  std::vector<std::string> hosts;  // by rank
  std::vector<TorchParameter> parameters;
  std::vector<DdpRow> rows;  // the script's own first; steps of ddp are compared with predictions only
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
struct Elsewhere : Place {
  const TorchProfile* link_of = nullptr;  // the link of another recording, without `wire` and `link`
  double none_s = 0;                      // the step without synchronisation there; 0: as recorded
  double pace = 1;                        // how many times as long collectives take

  bool is_given() const { return world_size > 0 || wire || link || link_of != nullptr || none_s > 0; }
};

// The launches of one model.
class TorchProfile {
 public:
  // One launch from each line. Throws InvalidInput, which names `source` and the line, for anything that is
  // no such launch, and where launches are not of the same script, model, world and device.
  TorchProfile(std::istream& lines, const std::string& source);

  const std::vector<TorchLaunch>& launches() const { return launches_; }
  double total_bytes() const;  // of all parameters' gradients
  // Whether its parameters and passes are the other's.
  bool HasModelOf(const TorchProfile& other) const;
  // DDP's buckets, in the order of issue.
  std::vector<PlannedBucket> Buckets(const DdpRow& row) const;

  // What was measured: the step of a mode ("none"), of "ddp" that with the settings of this name. NaN without
  // such steps.
  Estimate Measured(const std::string& mode, const std::string& row = "") const;
  // The second-run error (tools/statistics/estimates.h) of DDP with these settings.
  double SecondRunError(const std::string& row) const;
  // What a step with these settings should take, of `row.passes` passes. No step of DDP enters. Throws
  // InvalidInput if nothing was communicated and `elsewhere` has no link.
  Prediction Predict(const DdpRow& row, const Elsewhere& elsewhere = {}) const;

 private:
  // In seconds.
  LooseSample Steps(const std::string& mode, const std::string& row) const;

  std::vector<TorchLaunch> launches_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_TORCH_PROFILE_H_
