#include "bench/launch/rank_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "absl/strings/str_split.h"
#include "bench/launch/flag_marks.h"
#include "bench/launch/tools.h"
#include "comm/factory.h"
#include "comm/processes/launch.h"
#include "comm/processes/run_command.h"
#include "comm/rendezvous/job.h"
#include "comm/rendezvous/rendezvous.h"
#include "model/base/error.h"
#include "model/base/exit_status.h"
#include "model/base/standard_streams.h"

namespace gradsync::bench {
namespace {

constexpr std::chrono::minutes kPatience{5};

// Writes the file in which torchrun looks for the error of a rank. torchrun shows the message only if there
// is no member py_callstack.
void WriteErrorFile(const std::string& line) {
  const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr) return;
  const nlohmann::json extra = {{"timestamp", std::to_string(std::time(nullptr))}};
  std::ofstream(path) << nlohmann::json{{"message", {{"message", line}, {"extraInfo", extra}}}};
}

int Fail(int status, const std::string& line) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", line.c_str());
  WriteErrorFile(line);
  return status;
}

// Prints the world that the launcher described, so that a user can check it.
void PrintWorld(const comm::World& world) {
  if (world.launched_by_self() || world.rank > 0) return;
  const std::vector<std::string> hosts = comm::HostsOf(world);
  const size_t num_hosts = std::set<std::string>(hosts.begin(), hosts.end()).size();
  std::printf("%s: %d %s on %zu %s%s%s%s%s\n", world.launcher.c_str(), world.size,
              world.size == 1 ? "rank" : "ranks", num_hosts, num_hosts == 1 ? "host" : "hosts",
              world.job_name.empty() ? "" : ", job ", world.job_name.c_str(),
              world.rendezvous.empty() ? "" : ", which met at ", world.rendezvous.c_str());
  std::fflush(stdout);
}

void CheckWorld(const FlagTable& flags, const RankOptions& options, const comm::World& world) {
  Require(!flags.given("world_size") || options.world_size == world.size, "--world_size=", options.world_size,
          ": ", world.launcher, " started ", world.size, world.size == 1 ? " rank" : " ranks");
  if (!world.launched_by_self())
    flags.Refuse({"precision", "choose"},
                 Join("needs launches that this program starts, but ", world.launcher, " started the ranks"));
  Require(options.num_launches() == 1 || world.launched_by_self(), "--repeats=", options.num_launches(), ": ",
          world.launcher, " starts the ranks, and repeats them itself; expected 1, and ", kLaunchVariable,
          "=NAME,i for launch i");
}

// Returns the default number of threads of each rank. Ranks that this program starts may use the CPUs that
// this process may use.
int64_t ShareOfCpus(const comm::World& world, std::chrono::milliseconds timeout) {
  std::vector<std::string> all(static_cast<size_t>(world.size), ReadOwnCpus());
  if (world.launched_by_other()) all = comm::Rendezvous(world, timeout).Exchange({ReadOwnCpus()});
  return CountThreadsPerRank(all);
}

void CheckOutputDirectory(const RankOptions& options) {
  if (options.out.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  Require(!error, "--out=", options.out, ": cannot be made: ", error.message());
  const bool is_writable = access(options.out.c_str(), W_OK) == 0;
  const std::string reason = std::strerror(errno);
  Require(is_writable, "--out=", options.out, ": cannot be written to: ", reason);
}

// Prints the results on one screen, and the next commands. The tools compute the estimates, and this program
// must not depend on the tools: without them it prints only the path of the records.
void ShowAnswer(const char* argv0, const std::string& experiment, const std::string& out,
                const std::string& set) {
  std::error_code is_missing;
  const std::filesystem::directory_iterator files(out, is_missing);
  if (std::none_of(begin(files), end(files), [&](const auto& file) {
        return file.path().filename().string().starts_with(experiment + ".");
      }))
    return;
  try {
    const comm::CommandResult answer = comm::RunCommand(AnswerCommand(argv0, out, set), kPatience);
    std::printf("%s%s%s", answer.output.c_str(), answer.message.c_str(), answer.ok() ? "" : "\n");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("%s\n", TypedNext(out).c_str());
}

// Returns whether the launches so far are enough. Without an answer of the tool the measurement continues as
// planned.
bool IsPreciseEnough(const char* argv0, const std::string& out, double precision) {
  const comm::CommandResult answer = comm::RunCommand(PrecisionCommand(argv0, out, precision), kPatience);
  if (answer.ok()) {
    std::printf("Every difference is known to +- %g %%: no further launch\n", 100 * precision);
  } else if (!answer.end || answer.end->exit_status() != kNo) {
    std::fprintf(stderr, "--precision: %s\n", answer.message.c_str());
  }
  return answer.ok();
}

// The arguments of the launches after a choosing one, whose program and flags are given.
std::vector<std::string> ArgumentsOfChosen(const char* argv0, const FlagTable& flags, const std::string& out,
                                           const std::string& set) {
  const comm::CommandResult choice = comm::RunCommand(ChoiceCommand(argv0, out, set), kPatience);
  if (!choice.ok()) throw std::runtime_error(Join("--choose: ", choice.message));
  std::vector<std::string> arguments = {argv0};
  for (std::string& flag : flags.Given(/*except=*/kChoosesRows)) arguments.push_back(std::move(flag));
  const std::vector<std::string> lines = absl::StrSplit(choice.output, '\n');
  for (const auto& flag : absl::StrSplit(lines[0], ' ')) arguments.emplace_back(flag);
  std::fprintf(stderr, "%s\n", lines.at(1).c_str());
  return arguments;
}

// Throws InvalidInput if what the flags name cannot be used.
int RunRank(const RankProgram& program, const comm::World& world, bool answer, int argc, char** argv) {
  // Other ranks also report this error, and not only that this rank has ended.
  const auto rank_failed = [&](const std::exception& error) {
    const int status = Fail(kFailed, Join("rank ", world.rank, ": ", error.what()));
    if (world.job != nullptr) world.job->store().Fail(Join("rank ", world.rank, " failed: ", error.what()));
    return status;
  };
  // These objects outlive the exception: when the job's connections close, other ranks report errors that are
  // not the cause.
  std::optional<Rank> rank;
  std::unique_ptr<RankJob> job;
  try {
    rank.emplace(program.options, world, argc, argv);
    rank->SetBaseCommand(program.flags.Given(/*except=*/kChoosesRun));
    job = program.prepare(*rank);
    job->Run();
    if (!answer || !rank->is_first() || world.launched_by_self()) return kDone;
    if (world.local_size == world.size) {
      ShowAnswer(argv[0], program.experiment, rank->out(), rank->launch().set);
    } else {
      std::printf(
          "Each host has the records of its own ranks. With all of them in one directory, the answer is:\n"
          "  %s\n",
          TypedAnswer(rank->out()).c_str());
    }
    return kDone;
  } catch (const InvalidInput& error) {
    if (job != nullptr) return rank_failed(error);
    // Only this rank may have read the file. Other ranks report this error, and not that this rank has ended.
    if (world.job != nullptr) world.job->store().Fail(error.what(), comm::FailureKind::kBadArgument);
    throw;
  } catch (const comm::CollectiveError& error) {
    const auto bad_argument = world.job == nullptr ? std::nullopt : world.job->store().bad_argument();
    if (!bad_argument) return Fail(kFailed, error.what());
    throw InvalidInput(*bad_argument);
  } catch (const std::exception& error) {
    return rank_failed(error);
  }
}

int LaunchRanks(const RankProgram& program, bool with_mpirun, bool answer, std::span<char* const> argv) {
  const RankOptions& options = program.options;
  comm::LaunchOptions launch;
  launch.world_size = static_cast<int>(options.world_size);
  launch.with_mpirun = with_mpirun;
  launch.finish = options.timeout + std::chrono::seconds(10);
  const std::string set = NewRunId(), out = options.OutputDirectory(Join(program.experiment, "-", set));
  const int64_t num_launches = options.num_launches();
  std::vector<std::string> chosen;
  std::vector<char*> arguments(argv.begin(), argv.end());
  try {
    for (int64_t i = 0; i < num_launches; ++i) {
      if (i >= 2 && options.precision && IsPreciseEnough(argv[0], out, *options.precision)) break;
      if (num_launches > 1) std::printf("Launch %lld of %lld\n", 1LL + i, 0LL + num_launches);
      std::fflush(stdout);
      SetLaunch(set, i);
      if (i == 1 && options.choose) {
        chosen = ArgumentsOfChosen(argv[0], program.flags, out, set);
        arguments.clear();
        for (std::string& argument : chosen) arguments.push_back(argument.data());
      }
      if (const int status = comm::LaunchSelf(launch, arguments); status != kDone) return status;
    }
    if (answer) ShowAnswer(argv[0], program.experiment, out, set);
    return kDone;
  } catch (const InvalidInput&) {
    throw;
  } catch (const std::exception& error) {
    return Fail(kFailed, Join("cannot start the ranks: ", error.what()));
  }
}

int Run(int argc, char** argv, const RankProgram& program) try {
  FlagTable& flags = program.flags;
  const RankOptions& options = program.options;
  bool answer = true, check_only = false;
  flags.BeginGroup("Start and end");
  flags.Add(
      "check_only", &check_only, Switch(),
      "Checks the flags and this host, and measures nothing.\nA bad flag, or too little memory, ends the "
      "program as without this flag.",
      kOutput);
  flags.Add("answer", &answer, Switch(), "Ends with the answer on one screen.\nWithout it: records alone.",
            kOutput);
  flags.Parse(argc, argv);
  if (flags.help_requested()) {
    std::fputs(flags.Usage().c_str(), stdout);
    return kDone;
  }
  std::optional<comm::World> world = comm::WorldFromEnvironment();
  if (world) {
    CheckWorld(flags, options, *world);
    // The job is joined first.
    comm::Terms terms = flags.Values(/*except=*/kOfOneHost);
    // The launch changes the seed of each rank.
    terms.emplace_back(kLaunchVariable, ThisLaunch().text());
    world = comm::JoinJob(*world, terms, options.timeout);
    PrintWorld(*world);
  }
  for (const char* const name : {"GRADSYNC_RENDEZVOUS", kLaunchVariable}) {
    const char* const value = std::getenv(name);
    Require(world || value == nullptr || *value == '\0', name, "=", value == nullptr ? "" : value,
            ": is of no use without a launcher, which sets RANK and WORLD_SIZE; unset it");
  }
  comm::World known = world.value_or(comm::World{});
  if (!world) known.size = known.local_size = static_cast<int>(options.world_size);
  bool with_mpirun = false;
  try {
    if (options.computes && !options.threads_per_rank)
      program.options.threads_per_rank = ShareOfCpus(known, options.timeout);
    const std::vector<std::string> backends = program.plan(known);
    CheckDevice(options, backends, known);
    with_mpirun = std::ranges::any_of(backends, [](const std::string& backend) {
      const Variant over = Variant::Parse("@" + backend);
      return comm::TraitsOf(over.backend, over.backend_options).needs_mpirun;
    });
    // Ranks that this program started have been checked by the process that started them.
    if (!known.launched_by_self()) {
      if (program.answer && program.answer(known)) return kDone;
      program.check(known);
      if (options.precision || options.choose) AnswerCommand(argv[0], "");  // throws without the tool
      CheckOutputDirectory(options);
      if (check_only) return kDone;
    }
  } catch (const InvalidInput& error) {
    // The error may concern only this host. Other ranks report this error, and do not wait.
    if (known.job != nullptr) known.job->store().Fail(error.what(), comm::FailureKind::kBadArgument);
    throw;
  }
  if (world) return RunRank(program, *world, answer, argc, argv);
  return LaunchRanks(program, with_mpirun, answer, std::span<char* const>(argv, static_cast<size_t>(argc)));
} catch (const TooLittleMemory& error) {
  return Fail(kLacking, error.what());
} catch (const InvalidInput& error) {
  return comm::IsFirstToReport() ? Fail(kBadArguments, error.what()) : kBadArguments;
} catch (const comm::CollectiveError& error) {
  return Fail(kFailed, error.what());
}

}  // namespace

int RunRankProgram(int argc, char** argv, const RankProgram& program) {
  KeepStandardStreams();
  return WithWrittenOutput(Run(argc, argv, program));
}

}  // namespace gradsync::bench
