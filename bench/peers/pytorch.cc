#include "bench/peers/pytorch.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "bench/launch/runfile.h"
#include "bench/peers/options.h"
#include "comm/processes/host.h"
#include "comm/processes/run_command.h"
#include "model/device.h"
#include "model/error.h"
#include "model/tensor.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::json;

// A Python interpreter reads hundreds of MB before it can say anything, and a model's weights may take as
// long.
constexpr std::chrono::minutes kStartPatience{3};
// --check imports PyTorch and, where it is to compile, tries its compiler.
constexpr std::chrono::minutes kCheckPatience{5};
// For each strategy whose model is compiled, forward and backward, for all its layers.
constexpr std::chrono::minutes kCompilePatience{15};

Json Ask(PeerProcess& process, const Json& command, std::chrono::milliseconds timeout,
         std::span<const std::span<const char>> payload = {}) {
  const std::string line = process.Ask(command.dump(), timeout, payload);
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    throw std::runtime_error(Join("the peer's answer to ", command.at("do").get<std::string>(),
                                  " is no JSON object: ", line.substr(0, 200)));
  }
  return answer;
}

Json ToJson(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// Of the facts that a peer tells.
Value FromJson(const Json& json) {
  return json.is_number_integer() ? Value(json.get<int64_t>()) : Value(json.get<std::string>());
}

Json DescriptionOf(const model::Tensor& tensor) {
  return {{"dtype", Name(tensor.dtype())}, {"shape", tensor.shape()}};
}

// A command about a batch, which follows it as it lies in memory.
Json AskOver(const model::Batch& batch, PeerProcess& process, Json command,
             std::chrono::milliseconds timeout) {
  const model::Tensor parts[] = {batch.inputs.To(model::CpuDevice()), batch.targets.To(model::CpuDevice())};
  command["inputs"] = DescriptionOf(parts[0]);
  command["targets"] = DescriptionOf(parts[1]);
  std::vector<std::span<const char>> payload;
  for (const model::Tensor& part : parts) {
    payload.emplace_back(static_cast<const char*>(part.raw_data()), part.nbytes());
  }
  return Ask(process, command, timeout, payload);
}

std::string RankZeroHost(const comm::World& world) {
  if (world.launcher == "self" || world.size == 1) return "127.0.0.1";
  const char* const master = std::getenv("MASTER_ADDR");
  if (master != nullptr) return master;
  return comm::HostName();
}

// PyTorch takes a name from GLOO_SOCKET_IFNAME, and no address.
std::string InterfaceName(const RankOptions& options, const comm::World& world) {
  const std::string& given = options.interface_or_address;
  const bool is_address = given.find_first_of(".:") != std::string::npos;
  if (!given.empty() && !is_address) return given;
  return world.launcher == "self" ? "lo" : "";
}

}  // namespace

PeerProgram FindPeerProgram(const std::string& python, const char* argv0) {
  return {python, RunfilePath(argv0, "bench/peers/pytorch_ddp.py", /*executable=*/false)};
}

void CheckPeerProgram(const PeerProgram& program, bool compiled, const std::string& device) {
  std::vector<std::string> command = {program.python, program.script, "--check"};
  if (compiled) command.push_back(device);
  try {
    const comm::CommandResult check = comm::RunCommand(command, kCheckPatience);
    Require(check.ok(), "--with_peers=pytorch: ", check.message);
  } catch (const std::system_error& error) {
    throw InvalidInput(Join("--peer_python=", program.python, ": cannot be run: ", error.code().message()));
  }
}

PyTorchPeer::PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
                         const comm::World& world, const ThreadPlacement& placement,
                         comm::ProcessGroup& group, const model::DevicePtr& device)
    : options_(options) {
  const std::string threads = std::to_string(options.threads_per_rank);
  placement.StartCommunication([&] {
    process_.emplace(std::vector<std::string>{program.python, program.script, "--serve"},
                     std::map<std::string, std::optional<std::string>>{{"OMP_NUM_THREADS", threads},
                                                                       {"MKL_NUM_THREADS", threads}});
  });
  const auto patience = std::max<std::chrono::milliseconds>(kStartPatience, options.timeout);
  const Json hello =
      Ask(*process_, {{"do", "hello"}, {"rank", world.rank}, {"world_size", world.size}}, patience);
  const std::string port = BroadcastText(group, device, world.rank == 0 ? hello.at("port").dump() : "");
  const std::string host = BroadcastText(group, device, world.rank == 0 ? RankZeroHost(world) : "");
  const Json joined = Ask(*process_,
                          {{"do", "join"},
                           {"host", host},
                           {"port", std::stoi(port)},
                           {"rank", world.rank},
                           {"world_size", world.size},
                           {"local_rank", world.local_rank},
                           {"backend", backend == "nccl" ? "nccl" : "gloo"},  // it has no other
                           {"device", options.device},
                           {"interface", InterfaceName(options, world)},
                           {"threads", options.threads_per_rank},
                           {"compute_cpus", placement.placement().compute_cpus},
                           {"timeout_s", std::chrono::ceil<std::chrono::seconds>(options.timeout).count()}},
                          patience);
  for (const auto& [name, version] : joined.at("libraries").items()) {
    libraries_.Set(name, version.get<std::string>());
  }
  clock_ = joined.at("clock").get<std::string>();
}

void PyTorchPeer::Begin(const Fields& config, const std::map<std::string, int64_t>& bucket_bytes,
                        const std::string& weights) {
  Json command;
  for (const auto& [name, value] : config) command[name] = ToJson(value);
  command["do"] = "begin";
  command["bucket_bytes"] = bucket_bytes;
  command["weights"] = weights;
  const auto num_compiled = std::ranges::count_if(
      bucket_bytes, [](const auto& strategy) { return strategy.first.ends_with(kCompiled); });
  const Json begun = Ask(*process_, command,
                         std::max<std::chrono::milliseconds>(kStartPatience + num_compiled * kCompilePatience,
                                                             options_.timeout));
  facts_.clear();
  differs_by_.clear();
  const Json facts = begun.value("facts", Json::object());
  for (const auto& [strategy, of_strategy] : facts.items()) {
    for (const auto& [name, value] : of_strategy.items()) facts_[strategy].Set(name, FromJson(value));
  }
  const Json differs_by = begun.value("differs_by", Json::object());
  for (const auto& [strategy, value] : differs_by.items()) {
    differs_by_[strategy] = value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
  }
}

double PyTorchPeer::DiffersBy(const std::string& strategy) const {
  const auto found = differs_by_.find(strategy);
  return found == differs_by_.end() ? 0 : found->second;
}

PeerStep PyTorchPeer::Step(const std::string& strategy, const model::Batch& batch, int64_t num_steps) {
  const Json answer = AskOver(
      batch, *process_, {{"do", "step"}, {"strategy", strategy}, {"num_steps", num_steps}}, options_.timeout);
  PeerStep step;
  step.tells_sync = answer.contains("sync_exposed_ns");
  step.peak_bytes_in_use = answer.value("peak_bytes_in_use", int64_t{0});
  const char* const backward = step.tells_sync ? "backward_ns" : "backward_and_sync_ns";
  int64_t at_ns = 0;
  size_t mark = 0;
  for (const char* const phase : {"forward_ns", backward, "sync_exposed_ns", "optimizer_ns"}) {
    at_ns += answer.value(phase, int64_t{0});
    step.marks.at_ns[++mark] = at_ns;
  }
  return step;
}

void PyTorchPeer::Train(const std::string& strategy, const model::Batch& batch, const std::string& path) {
  AskOver(batch, *process_, {{"do", "check"}, {"strategy", strategy}, {"path", path}},
          std::max<std::chrono::milliseconds>(kStartPatience, options_.timeout));
}

}  // namespace gradsync::bench
