#pragma once

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
#include "model/tensor/device.h"

namespace gradsync::bench {

// The flags of all benchmarks that run as several ranks.
struct RankOptions {
  model::Device::Type device = model::Device::Type::kCpu;
  int64_t world_size = 2;
  std::optional<int64_t> threads_per_rank = {};  // empty until RunRankProgram divides the CPUs among ranks
  int64_t comm_threads = 2;
  std::string interface_or_address = {};
  std::chrono::milliseconds timeout{60000};
  int64_t seed = 0;
  std::string out = {};
  std::optional<int64_t> repeats = {};  // number of launches, for programs that have the flag
  // Width of intervals as a fraction of a step; no launch is started after the width is reached.
  std::optional<double> precision = {};
  // If true, the first launch takes all variants, and the others take the variants that the first launch did
  // not show to be slower.
  bool choose = false;
  // False for a program that computes nothing. Set this before AddTo, which then adds no --threads_per_rank.
  bool computes = true;

  void AddTo(FlagTable& flags);
  bool on_cpu() const { return device == model::Device::Type::kCpu; }
  std::string device_name() const;
  int64_t num_launches() const { return repeats.value_or(choose ? 3 : precision ? 4 : 1); }
  int compute_threads() const { return static_cast<int>(threads_per_rank.value_or(1)); }
  // Adds the options to a record, except the seed, which differs by launch. "link_rate" is the value of
  // GRADSYNC_LINK_RATE (tools/dev/hosts.sh).
  void Describe(ConfigFields& config) const;
  // Returns the path of --out. The default is results/<name>, in the workspace under `bazel run`, else in the
  // current directory.
  std::string OutputDirectory(std::string_view name) const;
};

// This host has too little memory for the flags. what() is one line with the needed and the available memory.
class TooLittleMemory : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// Returns a text with the machine of the calling process and the CPUs that the process may use, limited by a
// quota: "BOOT 0,1,4". Ranks with equal texts share these CPUs.
std::string ReadOwnCpus();
// Returns the number of compute threads per rank, at least 1, with which ranks do not share CPUs. The number
// is equal for all ranks, although ranks may run on different machines.
int64_t CountThreadsPerRank(std::span<const std::string> cpus_of_ranks);

// Returns the rank's device, according to --device. With cuda this is the GPU whose number is the local rank,
// or, if the host has fewer GPUs than ranks, a GPU that ranks share. Throws InvalidInput for a device that
// this build or this machine does not have.
model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world);
// Throws InvalidInput if the device does not exist, if one of the backends (Variant::over) cannot serve it in
// this world, and if --comm_threads has no effect on any of them. Makes no device, because the process that
// starts the ranks must not use GPU memory.
void CheckDevice(const RankOptions& options, std::span<const std::string> backends, const comm::World& world);

}  // namespace gradsync::bench
