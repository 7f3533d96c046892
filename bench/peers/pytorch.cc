#include "bench/peers/pytorch.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "bench/launch/over_ranks.h"
#include "bench/launch/tools.h"
#include "bench/peers/options.h"
#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/host.h"
#include "comm/processes/run_command.h"
#include "comm/rendezvous/network.h"
#include "model/base/error.h"
#include "model/tensor/device.h"
#include "model/tensor/tensor.h"

namespace gradsync::bench {
namespace {

using Json = nlohmann::json;

// A Python interpreter reads hundreds of MB before it can answer, and a model's weights may need as much
// time.
constexpr std::chrono::minutes kStartPatience{3};
// --check imports PyTorch and, if models are to be compiled, tries PyTorch's compiler.
constexpr std::chrono::minutes kCheckPatience{5};
// The time to compile forward and backward of all layers, for each strategy whose model is compiled.
constexpr std::chrono::minutes kCompilePatience{15};

Json DescriptionOf(const model::Tensor& tensor) {
  return {{"dtype", Name(tensor.dtype())}, {"shape", tensor.shape()}};
}

std::string RankZeroHost(const comm::World& world) {
  if (world.launched_by_self() || world.size == 1)
    return comm::LoopbackAddress(std::chrono::steady_clock::now() + kStartPatience);
  const char* const master = std::getenv("MASTER_ADDR");
  if (master != nullptr) return master;
  return comm::HostName();
}

// With these variables, a step of PyTorch does not return memory that the next step needs. By default glibc
// maps and clears large tensors in each step, which takes several per cent of a step. Variables that the user
// has set are not changed.
comm::EnvironmentChanges MallocVariables() {
  comm::EnvironmentChanges variables = {
      {"MALLOC_MMAP_MAX_", "0"}, {"MALLOC_TRIM_THRESHOLD_", "17179869184"}, {"MALLOC_TOP_PAD_", "67108864"}};
  for (auto& [name, value] : variables) {
    if (const char* const own = std::getenv(name.c_str())) value = own;
  }
  return variables;
}

// GLOO_SOCKET_IFNAME accepts the name of an interface, and no address.
std::string InterfaceName(const RankOptions& options, const comm::World& world) {
  const std::string& given = options.interface_or_address;
  const bool is_address = given.find_first_of(".:") != std::string::npos;
  if (!given.empty() && !is_address) return given;
  return world.launched_by_self() ? "lo" : "";
}

}  // namespace

// The process of PyTorch. It answers each line on its standard input with one line on its standard output.
class PyTorchPeer::Process {
 public:
  // Inherits the CPUs of the calling thread, and ends with this process. Throws std::system_error if it
  // cannot be started.
  Process(const PeerProgram& program, const std::string& threads) : name_(program.python) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    socket_ = comm::FileDescriptor(sockets[0]);
    const comm::FileDescriptor its_end(sockets[1]);
    auto environment = MallocVariables();
    environment.insert({{"OMP_NUM_THREADS", threads}, {"MKL_NUM_THREADS", threads}});
    child_.emplace(std::vector<std::string>{program.python, program.script, "--serve"},
                   comm::ChildOptions{.environment = std::move(environment),
                                      .stdin_fd = its_end.get(),
                                      .stdout_fd = its_end.get(),
                                      .stderr_fd = messages_.fd()});
  }

  // Sends the command, followed by the bytes of `payload`. Throws std::runtime_error if the program does not
  // answer in time, or if it ends; then the message has how it ended and the last line of its standard error.
  Json Ask(const Json& command, std::chrono::milliseconds timeout,
           std::span<const model::Tensor> payload = {}) {
    const comm::Deadline deadline = std::chrono::steady_clock::now() + timeout;
    Send(command.dump() + "\n", deadline);
    for (const model::Tensor& part : payload)
      Send({static_cast<const char*>(part.raw_data()), part.nbytes()}, deadline);
    std::string line;
    while (!line.ends_with('\n')) {
      if (!comm::WaitFor(socket_, POLLIN, deadline))
        throw std::runtime_error(Join(name_, ": gave no answer within ", timeout.count(), " ms"));
      char buffer[4096];
      const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ThrowEnded();
      line.append(buffer, static_cast<size_t>(n));
    }
    line.pop_back();
    Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) {
      throw std::runtime_error(Join("the peer's answer to ", command.at("do").get<std::string>(),
                                    " is no JSON object: ", line.substr(0, 200)));
    }
    return answer;
  }

  // Sends a command, followed by the bytes of a batch.
  Json AskOver(const model::Batch& batch, Json command, std::chrono::milliseconds timeout) {
    const model::Tensor parts[] = {batch.inputs.To(model::CpuDevice()), batch.targets.To(model::CpuDevice())};
    command["inputs"] = DescriptionOf(parts[0]);
    command["targets"] = DescriptionOf(parts[1]);
    return Ask(command, timeout, parts);
  }

 private:
  void Send(std::span<const char> bytes, comm::Deadline deadline) {
    while (!bytes.empty() && comm::WaitFor(socket_, POLLOUT, deadline)) {
      const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) ThrowEnded();
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  [[noreturn]] void ThrowEnded() {
    // The process has closed its output, so it is expected to end soon.
    const auto end = child_->Wait(std::chrono::steady_clock::now() + std::chrono::seconds(1));
    const std::string message = messages_.last_line();
    throw std::runtime_error(Join(name_, " ", end.has_value() ? comm::ToString(*end) : "closed its output",
                                  message.empty() ? "" : ": ", message));
  }

  const std::string name_;
  comm::FileDescriptor socket_;    // standard input and output of the process
  comm::CapturedOutput messages_;  // its standard error
  std::optional<comm::ChildProcess> child_;
};

PeerProgram FindPeerProgram(const std::string& python, const char* argv0) {
  return {python, RunfilePath(argv0, "bench/peers/pytorch_ddp.py", /*executable=*/false)};
}

void CheckPeerProgram(const PeerProgram& program, const std::string& compile_for) {
  std::vector<std::string> command = {program.python, program.script, "--check"};
  if (!compile_for.empty()) command.push_back(compile_for);
  try {
    const comm::CommandResult check = comm::RunCommand(command, kCheckPatience);
    Require(check.ok(), "--with_peers=pytorch: ", check.message);
  } catch (const std::system_error& error) {
    throw InvalidInput(Join("--peer_python=", program.python, ": cannot be run: ", error.code().message()));
  }
}

PyTorchPeer::PyTorchPeer(const PeerProgram& program, const RankOptions& options, std::string_view backend,
                         const comm::World& world, comm::ProcessGroup& group, const model::DevicePtr& device)
    : options_(options), rank_(world.rank) {
  process_ = std::make_unique<Process>(program, std::to_string(options.compute_threads()));
  const auto patience = std::max<std::chrono::milliseconds>(kStartPatience, options.timeout);
  const Json hello =
      process_->Ask({{"do", "hello"}, {"rank", world.rank}, {"world_size", world.size}}, patience);
  const std::string port = BroadcastText(group, device, world.rank == 0 ? hello.at("port").dump() : "");
  const std::string host = BroadcastText(group, device, world.rank == 0 ? RankZeroHost(world) : "");
  const Json joined =
      process_->Ask({{"do", "join"},
                     {"host", host},
                     {"port", Json::parse(port)},
                     {"rank", world.rank},
                     {"world_size", world.size},
                     {"local_rank", world.local_rank},
                     {"backend", backend},
                     {"device", options.device_name()},
                     {"interface", InterfaceName(options, world)},
                     {"threads", options.compute_threads()},
                     {"timeout_s", std::chrono::ceil<std::chrono::seconds>(options.timeout).count()}},
                    patience);
  for (const auto& [name, version] : joined.at("libraries").items())
    libraries_.Set(name, version.get<std::string>());
  clock_ = joined.at("clock").get<std::string>();
}

PyTorchPeer::~PyTorchPeer() = default;

void PyTorchPeer::Begin(const ConfigFields& config, const std::map<std::string, int64_t>& bucket_bytes,
                        const model::Model& model) {
  const std::string weights = files_.Path("weights");
  if (rank_ == 0) model::SaveParameters(model.parameters(), weights, model.buffers());
  Json command;
  for (const auto& [name, value] : config)
    std::visit([&, &name = name](const auto& held) { command[name] = held; }, value);
  command["do"] = "begin";
  command["bucket_bytes"] = bucket_bytes;
  command["weights"] = weights;
  const auto num_compiled = std::ranges::count_if(
      bucket_bytes, [](const auto& strategy) { return strategy.first.ends_with(kCompiledSuffix); });
  const Json begun =
      process_->Ask(command, std::max<std::chrono::milliseconds>(
                                 kStartPatience + num_compiled * kCompilePatience, options_.timeout));
  facts_.clear();
  std::string malloc;
  for (const auto& [name, value] : MallocVariables())
    malloc += Join(malloc.empty() ? "" : " ", name, "=", *value);
  for (const auto& [strategy, bytes] : bucket_bytes) facts_[strategy].Set("malloc", malloc);
  const Json facts = begun.value("facts", Json::object());
  for (const auto& [strategy, of_strategy] : facts.items()) {
    for (const auto& [name, value] : of_strategy.items()) {
      facts_[strategy].Set(FactName::Of(name),
                           value.is_string() ? Value(value.get<std::string>()) : Value(value.get<int64_t>()));
    }
  }
}

PeerStep PyTorchPeer::Step(const std::string& strategy, const model::Batch& batch, int64_t num_steps) {
  const Json answer = process_->AskOver(
      batch, {{"do", "step"}, {"strategy", strategy}, {"num_steps", num_steps}}, options_.timeout);
  PeerStep step;
  step.begin_ns = answer.at("begin_ns").get<int64_t>();
  step.peak_bytes_in_use = answer.value("peak_bytes_in_use", int64_t{0});
  for (const auto& [name, part] : kStepParts) {
    if (const auto found = answer.find(name.text()); found != answer.end())
      step.times.*part = found->get<int64_t>();
  }
  return step;
}

model::SafetensorsFile PyTorchPeer::Train(const std::string& strategy, const model::Batch& batch) {
  const std::string path = files_.Path("trained");
  process_->AskOver(batch, {{"do", "check"}, {"strategy", strategy}, {"path", path}},
                    std::max<std::chrono::milliseconds>(kStartPatience, options_.timeout));
  return model::SafetensorsFile::Open(path);
}

}  // namespace gradsync::bench
