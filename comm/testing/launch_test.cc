#include "comm/processes/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"
#include "comm/processes/temporary_directory.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A run of launch_test_program, from its start to its end, in files.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments, ChildOptions options = {}) {
    arguments.insert(arguments.begin(), "comm/testing/launch_test_program");
    const FileDescriptor out = OpenFile(directory_.Path("out"), O_CREAT | O_WRONLY | O_APPEND);
    const FileDescriptor err = OpenFile(directory_.Path("err"), O_CREAT | O_WRONLY | O_APPEND);
    options.environment.try_emplace("TMPDIR", directory_.path());
    options.stdout_fd = out.get();
    if (options.stderr_fd == STDERR_FILENO) options.stderr_fd = err.get();
    process_.emplace(arguments, options);
  }

  // The exit status as a shell has it; -1 if it does not end.
  int Wait() {
    const auto end = process_->Wait(std::chrono::steady_clock::now() + std::chrono::minutes(2));
    return end.has_value() ? end->shell_status() : -1;
  }
  pid_t pid() const { return process_->pid(); }
  void Signal(int signal) { process_->Signal(signal); }
  std::string out() const { return ReadFile(directory_.Path("out")); }
  std::string err() const { return ReadFile(directory_.Path("err")); }
  // What the run left in TMPDIR.
  std::vector<std::string> LeftBehind() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      if (std::string name = entry.path().filename(); name != "out" && name != "err") names.push_back(name);
    }
    return names;
  }

 private:
  TemporaryDirectory directory_;
  std::optional<ChildProcess> process_;
};

TEST(LaunchTest, StartsRanksWithTheSameArguments) {
  Program program({"talk", "the argument"});
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_EQ(program.out(), "rank 0 of 3 (0 of 3), the argument\n");
  const std::string err = program.err();
  for (const int rank : {1, 2}) {
    EXPECT_THAT(err, HasSubstr(Join("rank ", rank, " of 3 (", rank, " of 3), the argument\n")));
  }
  for (const int rank : {0, 1, 2}) EXPECT_THAT(err, HasSubstr(Join("rank ", rank, " on stderr\n")));
}

TEST(LaunchTest, MakesAndRemovesTheRendezvous) {
  Program program({"place"});
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.out(), MatchesRegex("file:///.*/gradsync\\..*\n"));
  EXPECT_TRUE(program.LeftBehind().empty());
}

// Longer than a socket's path or a job's name may be.
TEST(LaunchTest, TmpdirMayBeLong) {
  const TemporaryDirectory directory;
  const std::string path = directory.Path(std::string(190, 'x'));
  std::filesystem::create_directory(path);
  for (const std::string backend : {"gloo", "shm"}) {
    Program program({"reduce", backend}, {.environment = {{"TMPDIR", path}}});
    EXPECT_EQ(program.Wait(), 0) << program.err();
  }
  EXPECT_TRUE(std::filesystem::is_empty(path));
}

// A mode of the program, and what the launcher makes of it.
struct Ending {
  std::string mode;
  std::string argument = {};
  int status = 1;
  std::string err;  // a regular expression
};

class LaunchEndingTest : public testing::TestWithParam<Ending> {};

TEST_P(LaunchEndingTest, IsToldOnceAndLeavesNothing) {
  const Ending& ending = GetParam();
  Program program({ending.mode, ending.argument});
  EXPECT_EQ(program.Wait(), ending.status);
  EXPECT_THAT(program.err(), MatchesRegex(ending.err));
  EXPECT_TRUE(program.LeftBehind().empty());
}

constexpr char kKilled[] =
    "rank 1 \\(pid [0-9]+\\) was killed by signal 9 \\(SIGKILL\\); stopped the other ranks\n";
constexpr char kExited7[] = "rank 1 \\(pid [0-9]+\\) exited with status 7; stopped the other ranks\n";

INSTANTIATE_TEST_SUITE_P(
    Modes, LaunchEndingTest,
    testing::Values(
        Ending{.mode = "kill", .err = kKilled}, Ending{.mode = "exit", .err = kExited7},
        // The cause, even if its peers were noticed first.
        Ending{.mode = "kill_after_peer_failed", .err = kKilled},
        // Within the time to settle, and after it.
        Ending{.mode = "exit_after_peer_failed", .argument = "30", .err = kExited7},
        Ending{.mode = "exit_after_peer_failed", .argument = "300", .err = kExited7},
        // The others do not want to stop.
        Ending{.mode = "stubborn", .err = "rank 1 .* exited with status 1; stopped the other ranks\n"},
        Ending{.mode = "stall_at_the_end",
               .err = "rank 1 did not end within 0.5 s after the first rank; stopped it\n"},
        Ending{.mode = "bad_arguments", .status = 2, .err = "--sizes is 'x', expected a number\n"},
        // Although rank 0 did not notice.
        Ending{.mode = "bad_arguments_in_rank_1", .status = 2, .err = "rank 1 alone has something to say\n"}),
    [](const auto& tested) { return tested.param.mode + tested.param.argument; });

// The pid that rank 0 prints, once it does.
pid_t PidOfRank0(const Program& program) {
  while (program.out().find('\n') == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return std::stoi(program.out());
}

// How often the process has slept.
int SleepsOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (status >> word && word != "voluntary_ctxt_switches:") {
  }
  int count = -1;
  status >> count;
  return count;
}

// Wake-ups would disturb what the ranks measure.
TEST(LaunchTest, TheLauncherSleepsWhileRanksCompute) {
  Program program({"sleep"});
  PidOfRank0(program);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const int before = SleepsOf(program.pid());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_GE(before, 0);
  EXPECT_LE(SleepsOf(program.pid()) - before, 2);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 128 + SIGTERM);
}

class LaunchSignalTest : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Signals, LaunchSignalTest, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_P(LaunchSignalTest, IsHandedOnAndEndsTheLauncher) {
  const int signal = GetParam();
  Program program({"name_signal"});
  const pid_t rank0 = PidOfRank0(program);
  program.Signal(signal);
  EXPECT_EQ(program.Wait(), 128 + signal);
  const std::string err = program.err();
  EXPECT_THAT(err, HasSubstr(Join("rank 1 got ", SignalName(signal), "\n")));
  EXPECT_THAT(err, HasSubstr(Join("rank 2 got ", SignalName(signal), "\n")));
  EXPECT_THAT(err, EndsWith(Join("stopped all ranks on ", SignalName(signal), "\n")));
  EXPECT_NE(kill(rank0, 0), 0);
  EXPECT_TRUE(program.LeftBehind().empty());
}

// A terminal's Ctrl-C comes to the ranks as well, and they end before the launcher has told them anything.
TEST_P(LaunchSignalTest, ToTheWholeGroupIsNoRanksFault) {
  const int signal = GetParam();
  for (int i = 0; i < 10; ++i) {
    Program program({"sleep"}, {.own_group = true});
    PidOfRank0(program);
    program.Signal(signal);
    EXPECT_EQ(program.Wait(), 128 + signal);
    EXPECT_EQ(program.err(), Join("stopped all ranks on ", SignalName(signal), "\n"));
  }
}

TEST(LaunchTest, ASecondSignalKillsTheRanks) {
  Program program({"stubborn_for_ever"});
  PidOfRank0(program);
  program.Signal(SIGINT);
  while (program.err().find("rank 1 got signal 2") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait(), 128 + SIGINT);
}

// As under nohup.
TEST(LaunchTest, WhatIsIgnoredStaysIgnored) {
  signal(SIGHUP, SIG_IGN);
  Program program({"sleep"});
  signal(SIGHUP, SIG_DFL);
  PidOfRank0(program);
  program.Signal(SIGHUP);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 128 + SIGTERM);
  EXPECT_EQ(program.err(), "stopped all ranks on signal 15 (SIGTERM)\n");
}

// The ranks write more than a pipe holds; nobody reads it.
TEST(LaunchTest, AStderrThatTakesNothingHoldsUpNobody) {
  const Pipe unread = MakePipe();
  Program program({"chatter"}, {.stderr_fd = unread.write_end.get()});
  EXPECT_EQ(program.Wait(), 1);
}

TEST(LaunchTest, WorldSizeMustBePositive) { EXPECT_THROW(LaunchSelf({.world_size = 0}, {}), InvalidInput); }

}  // namespace
}  // namespace gradsync::comm
