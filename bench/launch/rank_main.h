#ifndef GRADSYNC_BENCH_LAUNCH_RANK_MAIN_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_MAIN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/launch/flags.h"
#include "bench/records/host.h"
#include "bench/records/record.h"
#include "comm/queue/recording_process_group.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

// What every benchmark that runs as several ranks shares: flags, launch, exit status, groups, records.
namespace gradsync::bench {

// The flags that all such benchmarks have.
struct RankOptions {
  std::string device = "cpu";
  int64_t world_size = 2;
  int64_t threads_per_rank = 1;
  int64_t comm_threads = 2;
  std::string placement = "none";
  std::string interface_or_address;
  std::chrono::milliseconds timeout{60000};
  int64_t seed = 0;
  std::string out;
  int64_t repeats = 1;  // launches, of a program that has the flag

  void AddTo(FlagTable& flags);
};

// A measurement as one rank runs it.
class RankJob {
 public:
  virtual ~RankJob() = default;
  // Throws if the measurement fails; what() then says which rank and why, in one line.
  virtual void Run() = 0;
};

// A program that is one benchmark.
struct RankProgram {
  FlagTable& flags;
  RankOptions& options;
  // Throws InvalidInput if the flags do not fit together, or do not fit the world. Called once before the
  // ranks start, where a launcher of its own started them once in each.
  std::function<void(const comm::World& world)> check;
  // Makes a rank's job. Throws InvalidInput if something the flags name cannot be used.
  std::function<std::unique_ptr<RankJob>(const comm::World& world)> prepare;
  // Asked between launches, from the second on, whether they are enough.
  std::function<bool(const std::string& launch_set)> is_enough = {};
};

// One of the launches that --repeats starts, one after the other, each of fresh processes.
struct Launch {
  std::string run_id = {};  // its name, the same on all ranks
  std::string set = {};     // the first launch's run_id
  int64_t index = 0;
};

// The main function of such a program: reads the flags; without a launcher starts the ranks, each by
// executing the program anew, as often as it is asked to, in each launch with the next seed; under torchrun,
// mpirun or srun is one of them. Returns the exit status: 0 done, or help printed; 1 a rank failed; 2 bad
// arguments, named in one line on stderr.
int RunRankProgram(int argc, char** argv, const RankProgram& program);

// The device that --device names, for the rank: with cuda the GPU of its local rank, or one shared with other
// ranks if the host has fewer GPUs. Throws InvalidInput for one that this build or this machine does not
// have.
model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world);
// Throws InvalidInput if there is no such device, or one of the backends cannot serve it in this world. Makes
// none, so that the process that starts the ranks takes no memory of a GPU.
void CheckDevice(const RankOptions& options, std::span<const std::string> backends, const comm::World& world);

// Where a rank's threads run. Under --placement=pin the rank's own thread, and with it OpenMP's, is confined
// to its CPUs as long as this lives: to be made before the first kernel runs, because OpenMP's threads stay
// where they were started.
class ThreadPlacement {
 public:
  // Throws InvalidInput if there are not CPUs enough.
  ThreadPlacement(const RankOptions& options, const comm::World& world);

  bool pinned() const { return !placement_.compute_cpus.empty(); }
  const Placement& placement() const { return placement_; }

  // Calls `start`; threads that it starts get the CPUs for communication.
  void StartCommunication(const std::function<void()>& start) const;

 private:
  const std::vector<int> all_cpus_;
  const Placement placement_;  // empty unless pinned
};

// Joins the group of `backend`. Throws like MakeProcessGroup.
std::unique_ptr<comm::RecordingProcessGroup> JoinGroup(const RankOptions& options, std::string_view backend,
                                                       const comm::World& world,
                                                       const model::DevicePtr& device,
                                                       const ThreadPlacement& placement);

// Rank 0's text, on every rank. At most 63 bytes.
std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device, std::string text);

// How many ranks' texts are the same as this one's own, which counts too. Texts of at most 63 bytes.
int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text);

// How many ranks compute on this rank's GPU, wherever they were started and however their hosts number GPUs;
// 0 on the CPU. All ranks call it.
int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device);

// The one that all ranks are in.
Launch AgreeOnLaunch(comm::ProcessGroup& group, const model::DevicePtr& device);

// The path in --out, or by default results/<name> in the workspace under `bazel run`, else in the current
// directory.
std::string OutputDirectory(const RankOptions& options, std::string_view name);

// The parts of a record that do not depend on the benchmark. "link_rate" is what GRADSYNC_LINK_RATE says
// (tools/dev/over_link.sh).
void SetRankConfig(const RankOptions& options, std::string_view backend, Fields& config);
// Its facts, what is known of the link, and what the device and the group add to its provenance: gpu, clock,
// libraries. All ranks call: GPUs are compared.
void SetRankFacts(comm::ProcessGroup& group, const model::DevicePtr& device, const comm::World& world,
                  const RankOptions& options, const Launch& launch, const ThreadPlacement& placement,
                  Record& record);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_MAIN_H_
