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

// The values of the flags that all benchmarks that start ranks have. Only //bench:ddp and //bench:compare
// also have the flags --repeats, --precision and --choose, with which the program starts all ranks several
// times.
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
  // The value of --precision. With this flag, the program starts all ranks two to num_launches() times, one
  // after the other. It stops earlier if it knows precisely how much longer each strategy's step is than the
  // baseline strategy's, and than a step without communication. `precision` is the largest allowed half-width
  // of the confidence intervals of these differences, as a fraction of the baseline's step time.
  std::optional<double> precision = {};
  // With --choose, this is true, and the program starts all ranks num_launches() times. The first time, it
  // measures all variants (strategies with options). Later it measures the baseline, the strategy without
  // communication (`none`) and those variants that the first time did not show to be slower than another.
  bool choose = false;
  // `computes` is false for a program that only communicates, which has no flag --threads_per_rank (number of
  // compute threads). The program must set `computes` before it calls AddTo, which adds the flags.
  bool computes = true;

  void AddTo(FlagTable& flags);
  bool on_cpu() const { return device == model::Device::Type::kCpu; }
  std::string device_name() const;
  int64_t num_launches() const { return repeats.value_or(choose ? 3 : precision ? 4 : 1); }
  int compute_threads() const { return static_cast<int>(threads_per_rank.value_or(1)); }
  // Adds the device and the numbers of compute and communication threads to a record's configuration. If they
  // are set, also adds `precision` and the environment variable GRADSYNC_LINK_RATE, the rate limit of the
  // network link.
  void Describe(ConfigFields& config) const;
  // Returns the directory for records, which --out names. Without --out, returns results/<name> in the
  // workspace (under `bazel run`) or in the current directory.
  std::string OutputDirectory(std::string_view name) const;
};

// Thrown if this host or one of its GPUs has too little memory. Its what() says how much memory is needed and
// how much is available.
class TooLittleMemory : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// Returns this machine's boot id and the CPUs that this process may use, or as many of them as a quota of CPU
// time allows: "<boot id> 0,1,4". Two ranks to which this function returns equal texts share these CPUs.
std::string ReadOwnCpus();
// Returns the number of compute threads of each rank if the ranks that may use the same CPUs divide these
// CPUs equally: the smallest number over the ranks, rounded down, at least 1. `cpus_of_ranks` has, for each
// rank, the text that ReadOwnCpus returned there.
int64_t CountThreadsPerRank(std::span<const std::string> cpus_of_ranks);

// Returns the CPU or, with --device=cuda, the GPU whose number is the local rank modulo the number of GPUs.
// Throws InvalidInput if this build or this machine has no such device.
model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world);
// Throws InvalidInput if the device does not exist, if one of the backends does not support the device or
// this number of ranks and hosts, or if --comm_threads differs from its default and no backend uses it. Makes
// no model::Device, because the process that starts the ranks must not use GPU memory.
void CheckDevice(const RankOptions& options, std::span<const std::string> backends, const comm::World& world);

}  // namespace gradsync::bench
