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

// The values of the flags that are common to all benchmarks that start ranks. Only //bench:ddp and
// //bench:compare also have the flags --repeats, --precision and --choose, with which the program starts all
// ranks several times.
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
  // With the flag --precision, the program starts all ranks two to num_launches() times, one after the other.
  // It stops earlier if two differences are known precisely enough for each strategy: the difference of its
  // step time to the baseline strategy's step time, and to the time of a step without communication.
  // `precision` is the largest allowed half-width of the confidence intervals of these differences, as a
  // fraction of the baseline's step time (without a baseline: of the time of a step without communication).
  std::optional<double> precision = {};
  // `choose` is true if the user gave --choose. With --choose, the program runs num_launches() launches
  // (starts of all ranks), one after the other. In the first launch, the ranks measure all variants
  // (strategies with options). Later launches leave out exact variants that the first launch shows to be
  // slower than another exact variant in every setting (batch size, sequence length, ...). Later launches
  // never leave out the baseline, or the strategy without communication (`none`).
  bool choose = false;
  // `computes` is false for a program that only communicates, which has no flag --threads_per_rank (number of
  // compute threads). The program must set `computes` before it calls AddTo, which adds the flags.
  bool computes = true;

  void AddTo(FlagTable& flags);
  bool on_cpu() const { return device == model::Device::Type::kCpu; }
  std::string device_name() const;
  int64_t num_launches() const { return repeats.value_or(choose ? 3 : precision ? 4 : 1); }
  int compute_threads() const { return static_cast<int>(threads_per_rank.value_or(1)); }
  // Adds the device and the numbers of compute and communication threads to a record's configuration. Also
  // adds the value of the flag --precision, if the user gave this flag. Also adds the rate limit of the
  // network link in bits per second, if the environment variable GRADSYNC_LINK_RATE is an integer.
  void Describe(ConfigFields& config) const;
  // Returns the directory for records, which --out names. Without --out, returns results/<name> in the
  // workspace (under `bazel run`) or in the current directory.
  std::string OutputDirectory(std::string_view name) const;
};

// Thrown if a measurement needs, by estimate, more memory than is available on this host, or than its first
// GPU has. TooLittleMemory::what() says how much memory is needed and how much is available.
class TooLittleMemory : public InvalidInput {
 public:
  using InvalidInput::InvalidInput;
};

// Returns this machine's boot id and the CPUs that this process may use, such as "<boot id> 0,1,4". If a
// quota of CPU time allows fewer CPUs, the text names only as many CPUs as the quota allows, rounded down,
// but at least one. CountThreadsPerRank assumes that ranks with equal texts share the named CPUs, and that
// ranks with different texts share none.
std::string ReadOwnCpus();
// Returns the default of the flag --threads_per_rank (number of compute threads of each rank).
// `cpus_of_ranks` has one text for each rank: the text that ReadOwnCpus returns in that rank's process. A
// rank's share is the number of CPUs in its text, divided by the number of ranks with the same text. The
// default is the smallest share of a rank, rounded down, but at least 1.
int64_t CountThreadsPerRank(std::span<const std::string> cpus_of_ranks);

// Returns the CPU or, with --device=cuda, the GPU whose number is the local rank modulo the number of GPUs.
// Throws InvalidInput if this build or this machine has no such device.
model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world);
// Throws InvalidInput if the device does not exist, or if comm::CheckBackend rejects one of the backends, the
// device or `world`. Also throws InvalidInput if --comm_threads differs from its default and no backend uses
// the value of --comm_threads. Makes no model::Device, because the process that starts the ranks must not use
// GPU memory.
void CheckDevice(const RankOptions& options, std::span<const std::string> backends, const comm::World& world);

}  // namespace gradsync::bench
