#ifndef GRADSYNC_BENCH_LAUNCH_RANK_OPTIONS_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "bench/records/record.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"
#include "model/base/flags.h"
#include "model/device.h"

namespace gradsync::bench {

// The flags of all benchmarks that run as several ranks.
struct RankOptions {
  model::Device::Type device = model::Device::Type::kCpu;
  int64_t world_size = 2;
  std::optional<int64_t> threads_per_rank = {};  // empty until RunRankProgram shares the CPUs
  int64_t comm_threads = 2;
  std::string interface_or_address;
  std::chrono::milliseconds timeout{60000};
  int64_t seed = 0;
  std::string out;
  std::optional<int64_t> repeats = {};   // launches, of a program that has the flag
  std::optional<double> precision = {};  // fraction of a step; stops further launches once reached
  bool choose = false;  // the first launch takes all variants, the others those that it did not show slower

  void AddTo(FlagTable& flags);
  bool on_cpu() const { return device == model::Device::Type::kCpu; }
  std::string device_name() const;
  int64_t num_launches() const { return repeats.value_or(choose ? 3 : precision ? 4 : 1); }
  int compute_threads() const { return static_cast<int>(threads_per_rank.value_or(1)); }
  // Adds the options to a record, except the seed, which differs by launch. "link_rate" is the value of
  // GRADSYNC_LINK_RATE (tools/dev/hosts.sh).
  void Describe(ConfigFields& config) const;
  // The path of --out. Default: results/<name> in the workspace under `bazel run`, else in the current
  // directory.
  std::string OutputDirectory(std::string_view name) const;
};

// This host has too little memory for the flags. what() is one line with the needed and the available memory.
class TooLittleMemory : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// The machine of the calling process and the CPUs that it may use, limited by a quota: "BOOT 0,1,4". Ranks
// with equal texts share these CPUs.
std::string OwnCpus();
// Number of compute threads per rank so that ranks do not share CPUs, at least 1: equal for all ranks,
// although they may run on different machines.
int64_t ThreadsPerRank(std::span<const std::string> cpus_of_ranks);

// The rank's device, as --device says: with cuda the GPU of its local rank, or one shared with other ranks if
// the host has fewer GPUs. Throws InvalidInput for a device that this build or this machine does not have.
model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world);
// Throws InvalidInput if the device does not exist, or one of the backends (Variant::over) cannot serve it in
// this world. Makes no device, so that the process that starts the ranks uses no GPU memory.
void CheckDevice(const RankOptions& options, std::span<const std::string> backends, const comm::World& world);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_OPTIONS_H_
