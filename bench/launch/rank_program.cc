#include "bench/launch/rank_program.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "comm/processes/launch.h"
#include "comm/rendezvous/job.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr int kDone = 0;
constexpr int kRankFailed = 1;
constexpr int kBadArguments = 2;

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

void CheckOutputDirectory(const RankOptions& options) {
  if (options.out.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  Require(!error, "--out=", options.out, ": cannot be made: ", error.message());
  Require(access(options.out.c_str(), W_OK) == 0, "--out=", options.out,
          ": cannot be written to: ", std::strerror(errno));
}

// Throws InvalidInput if what the flags name cannot be used.
int RunRank(const RankProgram& program, const comm::World& world, int argc, char** argv) {
  program.options.seed += ThisLaunch().index;
  // The other ranks say so too, and not only that this one has gone.
  const auto rank_failed = [&](const std::exception& error) {
    const int status = Fail(kRankFailed, Join("rank ", world.rank, ": ", error.what()));
    if (world.job != nullptr) world.job->store().Fail(Join("rank ", world.rank, " failed: ", error.what()));
    return status;
  };
  // Outlive the exception: when the job's connections close, other ranks report errors that are not the
  // cause.
  std::optional<Rank> rank;
  std::unique_ptr<RankJob> job;
  try {
    rank.emplace(program.options, world, argc, argv);
    job = program.prepare(*rank);
    job->Run();
    return kDone;
  } catch (const InvalidInput& error) {
    if (job != nullptr) return rank_failed(error);
    // Only this rank may have read the file. The others report the same, and not that this rank is gone.
    if (world.job != nullptr) world.job->store().Fail(error.what(), comm::FailureKind::kBadArgument);
    throw;
  } catch (const comm::CollectiveError& error) {
    const auto bad_argument = world.job == nullptr ? std::nullopt : world.job->store().bad_argument();
    if (!bad_argument) return Fail(kRankFailed, error.what());
    throw InvalidInput(*bad_argument);
  } catch (const std::exception& error) {
    return rank_failed(error);
  }
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
      SetLaunch(set, i);
      if (const int status = comm::LaunchSelf(launch, argv); status != kDone) return status;
    }
    return kDone;
  } catch (const std::exception& error) {
    return Fail(kRankFailed, Join("cannot start the ranks: ", error.what()));
  }
}

}  // namespace

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
  const char* const rendezvous = std::getenv("GRADSYNC_RENDEZVOUS");
  Require(world || rendezvous == nullptr || *rendezvous == '\0',
          "GRADSYNC_RENDEZVOUS=", rendezvous == nullptr ? "" : rendezvous,
          ": is of no use without a launcher, which sets RANK and WORLD_SIZE; unset it");
  comm::World known = world.value_or(comm::World{});
  if (!world) known.size = known.local_size = static_cast<int>(options.world_size);
  if (program.complete) program.complete(known);
  // Ranks that this program started have been checked by the process that started them.
  if (known.launcher != "self") {
    PlanPlacement(options, known);
    program.check(known);
    CheckOutputDirectory(options);
  }
  if (world) return RunRank(program, *world, argc, argv);
  return LaunchRanks(program, std::span<char* const>(argv, static_cast<size_t>(argc)));
} catch (const InvalidInput& error) {
  return comm::IsFirstToReport() ? Fail(kBadArguments, error.what()) : kBadArguments;
} catch (const comm::CollectiveError& error) {
  return Fail(kRankFailed, error.what());
}

}  // namespace gradsync::bench
