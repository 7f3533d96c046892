#include "bench/launch/rank_main.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/launch/link.h"
#include "bench/records/units.h"
#include "bench/timing/phase_timer.h"
#include "comm/factory.h"
#include "comm/processes/launch.h"
#include "comm/rendezvous/job.h"
#include "model/cuda_device.h"
#include "model/error.h"
#include "model/tensor.h"

namespace gradsync::bench {
namespace {

constexpr int kDone = 0;
constexpr int kRankFailed = 1;
constexpr int kBadArguments = 2;
// Before what a rank tells the others of an argument that it cannot use.
constexpr std::string_view kBadArgument = "bad argument: ";
// "<launch set>,<launch>"
constexpr char kLaunchVariable[] = "GRADSYNC_LAUNCH";

int Fail(int status, const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", line.c_str());
  return status;
}

void CheckWorld(const FlagTable& flags, const RankOptions& options, const comm::World& world) {
  Require(!flags.given("world_size") || options.world_size == world.size, "--world_size=", options.world_size,
          ": ", world.launcher, " started ", world.size, world.size == 1 ? " rank" : " ranks");
  Require(options.repeats == 1 || world.launcher == "self", "--repeats=", options.repeats, ": ",
          world.launcher, " starts the ranks, and repeats them itself; expected 1");
}

// Empty unless the ranks are to be pinned. Throws InvalidInput if there are not CPUs enough.
Placement PlacementOf(const RankOptions& options, const comm::World& world) {
  if (options.placement != "pin") return {};
  return PlanPlacement(AllowedCpus(), world.local_rank, world.local_size,
                       static_cast<int>(options.threads_per_rank));
}

void CheckOutputDirectory(const RankOptions& options) {
  if (options.out.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  Require(!error, "--out=", options.out, ": cannot be made: ", error.message());
  Require(access(options.out.c_str(), W_OK) == 0, "--out=", options.out,
          ": cannot be written to: ", std::strerror(errno));
}

// This rank's, as --repeats said in its environment; without a name.
Launch ThisLaunch() {
  const char* const text = std::getenv(kLaunchVariable);
  const std::pair<std::string, std::string> parts = absl::StrSplit(text == nullptr ? "" : text, ',');
  const std::optional<int64_t> index = ParseInteger(parts.second);
  return index ? Launch{.set = parts.first, .index = *index} : Launch{};
}

// Throws InvalidInput if what the flags name cannot be used.
int RunRank(const RankProgram& program, const comm::World& world) {
  program.options.seed += ThisLaunch().index;
  // The other ranks say so too, and not only that this one has gone.
  const auto rank_failed = [&](const std::exception& error) {
    const int status = Fail(kRankFailed, Join("rank ", world.rank, ": ", error.what()));
    if (world.job != nullptr) world.job->store().Fail(Join("rank ", world.rank, " failed: ", error.what()));
    return status;
  };
  // Outlives the exception: when the job's connections close, other ranks report errors that are not the
  // cause.
  std::unique_ptr<RankJob> job;
  try {
    job = program.prepare(world);
    job->Run();
    return kDone;
  } catch (const InvalidInput& error) {
    if (job != nullptr) return rank_failed(error);
    // Only this rank may have read the file. The others report the same, and not that this rank is gone.
    if (world.job != nullptr) world.job->store().Fail(Join(kBadArgument, error.what()));
    throw;
  } catch (const comm::CollectiveError& error) {
    const std::string line = error.what();
    const size_t found = line.find(kBadArgument);
    if (found == std::string::npos) return Fail(kRankFailed, line);
    throw InvalidInput(line.substr(found + kBadArgument.size()));
  } catch (const std::exception& error) {
    return rank_failed(error);
  }
}

// The text with zeros behind it.
model::Tensor TextTensor(const model::DevicePtr& device, const std::string& text) {
  constexpr size_t kBytes = 64;
  std::array<uint8_t, kBytes> bytes{};
  Require(text.size() < kBytes, "text to send: found ", text.size(), " bytes, expected fewer than ", kBytes);
  std::memcpy(bytes.data(), text.data(), text.size());
  return model::Tensor::From<uint8_t>(device, {static_cast<int64_t>(kBytes)},
                                      std::span<const uint8_t>(bytes));
}

int LaunchRanks(const RankProgram& program, std::span<char* const> argv) {
  const RankOptions& options = program.options;
  comm::LaunchOptions launch;
  launch.world_size = static_cast<int>(options.world_size);
  launch.finish = options.timeout + std::chrono::seconds(10);
  const std::string set = NewRunId();
  try {
    for (int64_t i = 0; i < options.repeats; ++i) {
      if (i >= 2 && program.is_enough && program.is_enough(set)) break;
      if (options.repeats > 1) std::printf("Launch %lld of %lld\n", 1LL + i, 0LL + options.repeats);
      std::fflush(stdout);
      setenv(kLaunchVariable, Join(set, ",", i).c_str(), 1);
      if (const int status = comm::LaunchSelf(launch, argv); status != kDone) return status;
    }
    return kDone;
  } catch (const std::exception& error) {
    return Fail(kRankFailed, Join("cannot start the ranks: ", error.what()));
  }
}

}  // namespace

void RankOptions::AddTo(FlagTable& flags) {
  constexpr int64_t kMaxRanks = 4096;
  constexpr int64_t kMaxThreads = 1024;
  flags.BeginGroup("Ranks");
  flags.Add("device", &device, OneOf({"cpu", "cuda"}), "Where tensors live and are computed.");
  flags.Add("world_size", &world_size, Integer(1, kMaxRanks),
            "How many ranks to start. Under a launcher it may be left out, or must agree.");
  flags.Add("threads_per_rank", &threads_per_rank, Integer(1, kMaxThreads),
            "Compute threads of each rank, on the CPU.");
  flags.Add("comm_threads", &comm_threads, Integer(1, kMaxThreads),
            "Communication threads of each rank: so many collectives progress at the same time.");
  flags.Add("placement", &placement, OneOf({"none", "pin"}),
            "pin: every rank computes on CPUs of its own, and communicates on others if any are left.");
  flags.Add(
      "interface", &interface_or_address,
      Text("a network interface such as eth0, or an address of this host"),
      "Which network gloo uses, also that within hierarchical. Without it loopback on one host; on several "
      "the one on which their ranks met.");
  flags.Add("timeout", &timeout, Duration(), "How long a rank waits for one that makes no progress.");
  flags.Add("seed", &seed, Integer(0, std::numeric_limits<int64_t>::max() / 2), "Of all random numbers.");
  flags.Add("out", &out, Path("a directory"), "Where records go; made if it is missing.");
}

int RunRankProgram(int argc, char** argv, const RankProgram& program) try {
  FlagTable& flags = program.flags;
  const RankOptions& options = program.options;
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::fputs(flags.Usage().c_str(), stdout);
    return kDone;
  }
  std::optional<comm::World> world = comm::WorldFromEnvironment();
  if (world) {
    CheckWorld(flags, options, *world);
    // Before anything else. What only concerns one host, or has been compared already, may differ.
    world = comm::JoinJob(*world, flags.Values({"interface", "world_size"}), options.timeout);
  }
  // Ranks that this program started have been checked by the process that started them.
  if (!world || world->launcher != "self") {
    comm::World checked = world.value_or(comm::World{});
    if (!world) checked.size = checked.local_size = static_cast<int>(options.world_size);
    PlacementOf(options, checked);
    program.check(checked);
    CheckOutputDirectory(options);
  }
  if (world) return RunRank(program, *world);
  return LaunchRanks(program, std::span<char* const>(argv, static_cast<size_t>(argc)));
} catch (const InvalidInput& error) {
  return comm::IsFirstToReport() ? Fail(kBadArguments, error.what()) : kBadArguments;
} catch (const comm::CollectiveError& error) {
  return Fail(kRankFailed, error.what());
}

model::DevicePtr MakeDevice(const RankOptions& options, const comm::World& world) {
  if (options.device == "cpu") return model::CpuDevice(static_cast<int>(options.threads_per_rank));
  const int num_gpus = model::CudaDeviceCount();
  try {
    return std::make_shared<model::CudaDevice>(num_gpus == 0 ? 0 : world.local_rank % num_gpus);
  } catch (const InvalidInput& error) {
    throw InvalidInput(Join("--device=", options.device, ": ", error.what()));
  }
}

void CheckDevice(const RankOptions& options, std::span<const std::string> backends,
                 const comm::World& world) {
  using Type = model::Device::Type;
  const Type type = options.device == "cpu" ? Type::kCpu : Type::kCuda;
  if (type == Type::kCuda && model::CudaDeviceCount() == 0) MakeDevice(options, world);  // throws the reason
  for (const std::string& backend : backends) comm::CheckBackend(backend, type, world);
}

ThreadPlacement::ThreadPlacement(const RankOptions& options, const comm::World& world)
    : all_cpus_(AllowedCpus()), placement_(PlacementOf(options, world)) {
  if (pinned()) RunOnCpus(placement_.compute_cpus);
}

void ThreadPlacement::StartCommunication(const std::function<void()>& start) const {
  if (!pinned()) return start();
  // A thread inherits the CPUs of the thread that starts it.
  RunOnCpus(placement_.communication_cpus.empty() ? all_cpus_ : placement_.communication_cpus);
  start();
  RunOnCpus(placement_.compute_cpus);
}

std::unique_ptr<comm::RecordingProcessGroup> JoinGroup(const RankOptions& options, std::string_view backend,
                                                       const comm::World& world,
                                                       const model::DevicePtr& device,
                                                       const ThreadPlacement& placement) {
  comm::GroupOptions group;
  group.backend = backend;
  group.world = world;
  group.timeout = options.timeout;
  group.num_threads = static_cast<int>(options.comm_threads);
  group.interface_or_address = options.interface_or_address;
  std::unique_ptr<comm::ProcessGroup> joined;
  placement.StartCommunication([&] { joined = comm::MakeProcessGroup(group, device); });
  return std::make_unique<comm::RecordingProcessGroup>(std::move(joined));
}

std::string BroadcastText(comm::ProcessGroup& group, const model::DevicePtr& device, std::string text) {
  const model::Tensor tensor = TextTensor(device, text);
  group.Broadcast(tensor, 0).Wait();
  const std::vector<uint8_t> received = tensor.ToVector<uint8_t>();
  return reinterpret_cast<const char*>(received.data());  // ends at the first zero
}

int64_t CountRanksWith(comm::ProcessGroup& group, const model::DevicePtr& device, const std::string& text) {
  const model::Tensor own = TextTensor(device, text);
  const model::Tensor all = model::Tensor::Empty(device, {group.size() * own.numel()}, model::DType::kU8);
  group.AllGather(own, all).Wait();
  const std::vector<uint8_t> texts = all.ToVector<uint8_t>();
  int64_t count = 0;
  for (auto begin = texts.begin(); begin != texts.end(); begin += own.numel()) {
    if (text == reinterpret_cast<const char*>(&*begin)) ++count;
  }
  return count;
}

int64_t CountRanksOnGpu(comm::ProcessGroup& group, const model::DevicePtr& device) {
  if (device->is_cpu()) return 0;
  return CountRanksWith(group, device, model::CudaDevice::Of(*device, "ranks of a GPU").uuid());
}

Launch AgreeOnLaunch(comm::ProcessGroup& group, const model::DevicePtr& device) {
  Launch launch = ThisLaunch();
  const bool is_first = launch.index == 0 && !launch.set.empty();
  const std::string own = group.rank() != 0 ? "" : is_first ? launch.set : NewRunId();
  launch.run_id = BroadcastText(group, device, own);
  if (launch.set.empty()) launch.set = launch.run_id;
  return launch;
}

std::string OutputDirectory(const RankOptions& options, std::string_view name) {
  if (!options.out.empty()) return options.out;
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::filesystem::path base = workspace != nullptr ? workspace : std::filesystem::current_path();
  return (base / "results" / name).string();
}

void SetRankConfig(const RankOptions& options, std::string_view backend, Fields& config) {
  config.Set("backend", backend);
  config.Set("device", options.device);
  config.Set("threads_per_rank", options.threads_per_rank);
  config.Set("comm_threads", options.comm_threads);
  config.Set("placement", options.placement);
  config.Set("seed", options.seed);
  const char* const link_rate = std::getenv("GRADSYNC_LINK_RATE");
  if (const auto rate = ParseInteger(link_rate == nullptr ? "" : link_rate)) config.Set("link_rate", *rate);
}

void SetRankFacts(comm::ProcessGroup& group, const model::DevicePtr& device, const comm::World& world,
                  const RankOptions& options, const Launch& launch, const ThreadPlacement& placement,
                  Record& record) {
  Fields& facts = record.facts;
  facts.Set("launch_set", launch.set);
  facts.Set("launch", launch.index);
  facts.Set("launches", options.repeats);
  record.link = DescribeLink(group);
  facts.Set("launcher", world.launcher);
  facts.Set("local_size", world.local_size);
  facts.Set("collectives_in_flight", group.num_threads());
  for (const auto& [name, value] : group.facts()) {
    if (name != "interface") facts.Set(name, value);  // the link has that
  }
  record.provenance.clock = ClockName(*device);
  if (!device->is_cpu()) {
    const auto& gpu = model::CudaDevice::Of(*device, "record");
    facts.Set("gpu_uuid", gpu.uuid());
    facts.Set("ranks_per_gpu", CountRanksOnGpu(group, device));
    record.provenance.gpu = gpu.product_name();
    record.provenance.libraries.Set("cuda_runtime", model::CudaRuntimeVersion());
    record.provenance.libraries.Set("cuda_driver", model::CudaDriverVersion());
    for (const auto& [name, version] : comm::BackendLibraries())
      record.provenance.libraries.Set(name, version);
  }
  if (!placement.pinned()) return;
  const Placement& cpus = placement.placement();
  facts.Set("compute_cpus", absl::StrJoin(cpus.compute_cpus, ","));
  facts.Set("communication_cpus", cpus.communication_cpus.empty()
                                      ? std::string("any")
                                      : absl::StrJoin(cpus.communication_cpus, ","));
}

}  // namespace gradsync::bench
