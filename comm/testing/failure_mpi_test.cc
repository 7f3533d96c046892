// A rank of mpi that goes missing, after a run that always has something on its way: this program has mpirun
// start it again, as two ranks.
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "comm/mpi/mpi_process_group.h"
#include "comm/processes/launch.h"
#include "comm/rendezvous/job.h"

namespace gradsync::comm {
namespace {

// What a rank exits with: LaunchSelf returns both as they are.
constexpr int kFailedAsItShould = 1, kWrong = 2;
constexpr std::chrono::milliseconds kTimeout{2000};
constexpr int kCollectives = 40;

Work IssueOn(ProcessGroup& group) {
  return group.AllReduce(model::Tensor::Zeros(model::CpuDevice(), {1000}, model::DType::kF32),
                         ReduceOp::kSum);
}

std::string ErrorOf(Work work) {
  try {
    work.Wait();
  } catch (const CollectiveError& failure) {
    return failure.what();
  }
  return "no error";
}

int RunRank(World world) {
  world = JoinJob(world, {}, std::chrono::seconds(60));
  const auto group = MakeMpiGroup({.world = world, .timeout = kTimeout}, model::CpuDevice(), nullptr);
  // Rank 0 is one ahead, so something of it is always on its way, for twice the timeout.
  Work work;
  for (int i = 0; i < kCollectives; ++i) {
    if (world.rank == 1) std::this_thread::sleep_for(2 * kTimeout / kCollectives);
    Work next = IssueOn(*group);
    if (world.rank == 1) work = next;
    work.Wait();
    work = next;
  }
  auto destroyed = MakeMpiGroup({.world = world}, model::CpuDevice(), nullptr);
  if (world.rank == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(40));  // mpirun ends this
    return kWrong;
  }
  work.Wait();
  int64_t begin_ns = Now();
  std::string error = ErrorOf(IssueOn(*group));
  std::chrono::nanoseconds taken(Now() - begin_ns);
  if (error.find("made no progress for 2.0 s") == std::string::npos || taken > 4 * kTimeout) {
    std::fprintf(stderr, "after %s: %s\n", Seconds(taken).c_str(), error.c_str());
    return kWrong;
  }
  begin_ns = Now();
  const Work unfinished = IssueOn(*destroyed);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it is on its way
  destroyed.reset();
  error = ErrorOf(unfinished);
  taken = std::chrono::nanoseconds(Now() - begin_ns);
  if (error.ends_with("the group was destroyed before it finished") && taken < 4 * kTimeout)
    return kFailedAsItShould;
  std::fprintf(stderr, "after %s: %s\n", Seconds(taken).c_str(), error.c_str());
  return kWrong;
}

int RunTest(std::span<char* const> argv) {
  const int64_t begin_ns = Now();
  const int status = LaunchSelf({.world_size = 2, .with_mpirun = true}, argv);
  const std::chrono::nanoseconds taken(Now() - begin_ns);
  // The rank that failed does not wait for the other in MPI_Finalize.
  const bool is_right = status == kFailedAsItShould && taken < std::chrono::seconds(30);
  std::printf("%s: status %d after %s\n", is_right ? "right" : "wrong", status, Seconds(taken).c_str());
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace gradsync::comm

int main(int argc, char** argv) try {
  using namespace gradsync::comm;  // NOLINT(google-build-using-namespace)
  if (MpiVersion().empty()) {
    std::puts("built without Open MPI: nothing to test");
    return 0;
  }
  if (const std::optional<World> world = WorldFromEnvironment()) return RunRank(*world);
  return RunTest(std::span(argv, static_cast<size_t>(argc)));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
