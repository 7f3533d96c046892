// A program for launch_test: starts copies of itself, which then behave as the first argument says.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <thread>

#include "comm/factory.h"
#include "comm/processes/child_process.h"
#include "comm/processes/launch.h"
#include "comm/processes/stop_signals.h"
#include "comm/rendezvous/world.h"
#include "model/tensor/tensor.h"

namespace gradsync::comm {
namespace {

void SleepForever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

void SayReady(const World& world) {
  if (world.rank != 0) return;
  std::printf("%d\n", getpid());
  std::fflush(stdout);
}

void WaitForOthers(const World& world) {
  const std::string prefix = world.rendezvous.substr(std::string("file://").size()) + "/ready.";
  std::ofstream(prefix + std::to_string(world.rank)).flush();
  for (int rank = 0; rank < world.size; ++rank) {
    while (access((prefix + std::to_string(rank)).c_str(), F_OK) != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// All ranks reduce a few times.
int Reduce(const World& world, const std::string& backend) {
  constexpr int kSteps = 5;
  const auto device = model::CpuDevice();
  const auto group = MakeProcessGroup(
      {.backend = backend, .world = world, .timeout = std::chrono::seconds(60), .interface_or_address = {}},
      device);
  const auto tensor = group->Allocate(device, {1 << 20}, model::DType::kF32);
  const std::span<float> values(tensor.data<float>(), static_cast<size_t>(tensor.numel()));
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((world.rank + 1) * (step + i % 10));
    group->AllReduce(tensor, ReduceOp::kSum).Wait();
    const int sum_of_ranks = world.size * (world.size + 1) / 2;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == static_cast<float>(sum_of_ranks * (step + i % 10))) continue;
      std::fprintf(stderr, "rank %d: element %zu of sum %d is %f\n", world.rank, i, step, values[i]);
      return 4;
    }
  }
  return 0;
}

int RunRank(const World& world, const std::string& mode, const std::string& argument) {
  if (mode == "talk") {
    std::printf("rank %d of %d (%d of %d), %s\n", world.rank, world.size, world.local_rank, world.local_size,
                argument.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "rank %d on stderr\n", world.rank);
    return 0;
  }
  if (mode == "place") {
    if (world.rank == 0) std::printf("%s\n", world.rendezvous.c_str());
    return 0;
  }
  if (mode == "stall_at_the_end") {
    if (world.rank == 1) SleepForever();
    return 0;
  }
  if (mode == "bad_arguments") {
    if (IsFirstToReport()) std::fprintf(stderr, "--sizes is 'x', expected a number\n");
    return 2;
  }
  if (mode == "bad_arguments_in_rank_1") {
    if (world.rank == 0) SleepForever();
    if (IsFirstToReport()) std::fprintf(stderr, "rank 1 alone has something to say\n");
    return 2;
  }
  if (mode == "exit") {
    if (world.rank == 1) return 7;
    SleepForever();
  }
  if (mode == "kill") {
    if (world.rank == 1) raise(SIGKILL);
    SleepForever();
  }
  if (mode == "kill_after_peer_failed") {
    // The others notice before the launcher does.
    if (world.rank != 1) return 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    raise(SIGKILL);
  }
  if (mode == "exit_after_peer_failed") {
    // When it has been asked to stop, or before.
    if (world.rank != 1) return 1;
    const BlockSignals block_signals(SetOf({SIGTERM}));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::stoi(argument)));
    std::_Exit(7);
  }
  if (mode == "stubborn") {
    if (world.rank == 1) return 1;
    signal(SIGTERM, SIG_IGN);
    SleepForever();
  }
  if (mode == "reduce") return Reduce(world, argument);
  if (mode == "sleep") {
    SayReady(world);
    SleepForever();
  }
  if (mode == "name_signal" || mode == "stubborn_for_ever") {
    const sigset_t signals = SetOf({SIGINT, SIGTERM, SIGHUP});
    const BlockSignals block_signals(signals);
    WaitForOthers(world);
    SayReady(world);
    do {
      int signal = 0;
      sigwait(&signals, &signal);
      std::fprintf(stderr, "rank %d got %s\n", world.rank, SignalName(signal).c_str());
    } while (mode == "stubborn_for_ever");
    return 1;
  }
  if (mode == "chatter") {
    if (world.rank == 0) SleepForever();
    const std::string line(1000, 'x');
    while (world.rank == 1) std::fprintf(stderr, "%s\n", line.c_str());
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return 7;
  }
  return 99;
}

int Main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  try {
    if (const auto world = WorldFromEnvironment(); world.has_value()) return RunRank(*world, mode, argument);
    const bool stays = mode == "stubborn_for_ever";
    return LaunchSelf({.world_size = 3,
                       .settle = std::chrono::milliseconds(200),
                       .finish = std::chrono::milliseconds(mode == "stall_at_the_end" ? 500 : 60'000),
                       .grace = std::chrono::milliseconds(stays ? 600'000 : 300)},
                      std::span<char* const>(argv, static_cast<size_t>(argc)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace gradsync::comm

int main(int argc, char** argv) { return gradsync::comm::Main(argc, argv); }
