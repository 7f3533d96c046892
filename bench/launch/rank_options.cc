#include "bench/launch/rank_options.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_join.h"
#include "bench/launch/flag_marks.h"
#include "bench/records/host.h"
#include "comm/factory.h"
#include "comm/processes/host.h"
#include "model/base/units.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

Kind<model::Device::Type> Devices() {
  using Type = model::Device::Type;
  return OneOf<Type>({{"cpu", Type::kCpu}, {"cuda", Type::kCuda}});
}

}  // namespace

void RankOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxRanks = 4096;
  constexpr int64_t kMaxThreads = 1024;
  flags.BeginGroup("Ranks");
  flags.Add("device", &device, Devices(), "Computes on this device.", kNeedsMemory);
  flags.Add("world_size", &world_size, Integer(1, kMaxRanks),
            "Starts this number of ranks.\nUnder a launcher, omit it, or set the launcher's number.",
            kOfOneHost | kNeedsMemory);
  if (computes)
    flags.Add(
        "threads_per_rank", &threads_per_rank, Integer(1, kMaxThreads),
        "Sets the number of compute threads of each rank, on the CPU.\nDefault: the number of CPUs that the "
        "ranks of a machine may use, limited by a quota, divided by the number of these ranks.");
  flags.Add("comm_threads", &comm_threads, Integer(1, kMaxThreads),
            "Runs this number of collectives of each rank at the same time, each on a thread.");
  flags.Add("interface", &interface_or_address,
            Text("a network interface such as eth0, or an address of this host"),
            "Sends over this network, of gloo alone or within hierarchical.\nDefault: loopback on one host; "
            "on several "
            "hosts the network on which the ranks met.",
            kOfOneHost);
  flags.Add("timeout", &timeout, Duration(), "Waits this long for a rank that makes no progress.",
            kNeedsMemory);
  flags.Add("seed", &seed, Integer(0, std::numeric_limits<int64_t>::max() / 2), "Seeds all random numbers.");
  flags.Add("out", &out, Path("a directory"),
            "Writes records there, and makes the directory if it is missing.", kOutput);
}

void RankOptions::Describe(ConfigFields& config) const {
  config.Set("device", device_name());
  config.Set("threads_per_rank", compute_threads());
  config.Set("comm_threads", comm_threads);
  if (precision) config.Set("precision", Value(*precision));
  const char* const link_rate = std::getenv("GRADSYNC_LINK_RATE");
  if (const auto rate = ParseInteger(link_rate == nullptr ? "" : link_rate)) config.Set("link_rate", *rate);
}

std::string RankOptions::device_name() const { return Devices().print(device); }

std::string RankOptions::OutputDirectory(std::string_view name) const {
  if (!out.empty()) return out;
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::filesystem::path base = workspace != nullptr ? workspace : CurrentDirectory();
  return (base / "results" / name).string();
}

std::string ReadOwnCpus() {
  std::vector<int> cpus = AllowedCpus();
  const auto all = static_cast<double>(cpus.size());
  cpus.resize(static_cast<size_t>(std::max(1.0, std::min(all, ControlGroups().CpuQuota()))));
  return Join(comm::BootIdentity(), " ", absl::StrJoin(cpus, ","));
}

int64_t CountThreadsPerRank(std::span<const std::string> cpus_of_ranks) {
  int64_t least = CPU_SETSIZE;
  for (const std::string& cpus : cpus_of_ranks)
    least = std::min(least, (std::ranges::count(cpus, ',') + 1) / std::ranges::count(cpus_of_ranks, cpus));
  return std::max<int64_t>(1, least);
}

model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world) {
  if (options.on_cpu()) return model::CpuDevice(options.compute_threads());
  const int num_gpus = model::CudaDeviceCount();
  try {
    return std::make_shared<model::CudaDevice>(num_gpus == 0 ? 0 : world.local_rank % num_gpus);
  } catch (const InvalidInput& error) {
    throw InvalidInput(Join("--device=cuda: ", error.what()));
  }
}

void CheckDevice(const RankOptions& options, std::span<const std::string> backends,
                 const comm::World& world) {
  if (!options.on_cpu() && model::CudaDeviceCount() == 0) MakeDevice(options, world);  // throws the reason
  bool has_threads = false;
  for (const std::string& backend : backends) {
    const Variant over = Variant::Parse("@" + backend);
    comm::CheckBackend(over.backend, over.backend_options, options.device, world);
    has_threads |= comm::TraitsOf(over.backend, over.backend_options).has_threads;
  }
  Require(has_threads || options.comm_threads == RankOptions().comm_threads,
          "--comm_threads=", options.comm_threads,
          ": no backend here runs collectives at the same time: ", absl::StrJoin(backends, ", "));
}

}  // namespace gradsync::bench
