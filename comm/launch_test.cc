#include "comm/launch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "comm/rank_threads.h"
#include "model/error.h"

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
  explicit Program(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "comm/launch_test_program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("TMPDIR", directory_.path().c_str(), 1);
    Redirect("/out", STDOUT_FILENO);
    Redirect("/err", STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(98);
  }

  // The exit status.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }
  std::string out() const { return ReadFile(directory_.path() + "/out"); }
  std::string err() const { return ReadFile(directory_.path() + "/err"); }
  // What the run left in TMPDIR.
  std::vector<std::string> LeftBehind() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      if (std::string name = entry.path().filename(); name != "out" && name != "err") names.push_back(name);
    }
    return names;
  }

 private:
  void Redirect(const char* name, int fd) const {
    const int file = open((directory_.path() + name).c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(file, fd);
  }

  TemporaryDirectory directory_;
  pid_t pid_ = -1;
};

TEST(LaunchTest, StartsRanksWithTheSameArguments) {
  Program program({"talk", "the argument"});
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_EQ(program.out(), "rank 0 of 3 (0 of 3), the argument\n");
  const std::string err = program.err();
  EXPECT_THAT(err, HasSubstr("[rank 1] rank 1 of 3 (1 of 3), the argument\n"));
  EXPECT_THAT(err, HasSubstr("[rank 2] rank 2 of 3 (2 of 3), the argument\n"));
  EXPECT_THAT(err, HasSubstr("[rank 1] unfinished line of rank 1\n"));
  EXPECT_THAT(err, HasSubstr("unfinished line of rank 0"));
}

TEST(LaunchTest, MakesAndRemovesTheRendezvous) {
  Program program({"place"});
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_THAT(program.out(), MatchesRegex("file:///.*/gradsync\\..*\n"));
  EXPECT_TRUE(program.LeftBehind().empty());
}

TEST(LaunchTest, AKilledRankStopsTheOthers) {
  Program program({"kill"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.err(),
              MatchesRegex(
                  "rank 1 \\(pid [0-9]+\\) was killed by signal 9 \\(SIGKILL\\); stopped the other ranks\n"));
  EXPECT_TRUE(program.LeftBehind().empty());
}

TEST(LaunchTest, ARankThatExitsStopsTheOthers) {
  Program program({"exit"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.err(),
              MatchesRegex("rank 1 \\(pid [0-9]+\\) exited with status 7; stopped the other ranks\n"));
}

TEST(LaunchTest, AKilledRankIsTheCauseEvenIfItsPeersWereNoticedFirst) {
  Program program({"kill_after_peer_failed"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.err(),
              MatchesRegex("rank 1 .* was killed by signal 9 .SIGKILL.; stopped the other ranks\n"));
}

TEST(LaunchTest, RanksThatDoNotWantToStopAreMadeTo) {
  Program program({"stubborn"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.err(), MatchesRegex("rank 1 .* exited with status 1; stopped the other ranks\n"));
}

TEST(LaunchTest, BadArgumentsAreSaidOnce) {
  Program program({"bad_arguments"});
  EXPECT_EQ(program.Wait(), 2);
  EXPECT_EQ(program.err(), "--sizes is 'x', expected a number\n");
}

TEST(LaunchTest, BadArgumentsAreSaidEvenIfRank0DidNotNotice) {
  Program program({"bad_arguments_in_rank_1"});
  EXPECT_EQ(program.Wait(), 2);
  EXPECT_EQ(program.err(), "[rank 1] rank 1 alone has something to say\n");
}

int64_t ElapsedMs(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start)
      .count();
}

// The deadline is a minute, but the peers' connections break at once.
TEST(LaunchTest, ARankKilledInACollectiveEndsTheRun) {
  const auto start = std::chrono::steady_clock::now();
  Program program({"kill_in_collectives"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_LT(ElapsedMs(start), 30'000);
  const std::string err = program.err();
  EXPECT_THAT(err, EndsWith("was killed by signal 9 (SIGKILL); stopped the other ranks\n"));
  EXPECT_THAT(err, HasSubstr("\nrank 1 (pid "));
  EXPECT_THAT(err, HasSubstr("rank 1 closed the connection"));
  EXPECT_THAT(err, HasSubstr("all_reduce #5 of 4194304 bytes (gloo) failed after"));
}

TEST(LaunchTest, ARankThatHangsEndsTheRunAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  Program program({"hang_in_collectives"});
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_LT(ElapsedMs(start), 30'000);
  const std::string err = program.err();
  EXPECT_THAT(err, HasSubstr("rank 1 made no progress for 0.5 s"));
  EXPECT_THAT(err, EndsWith("exited with status 1; stopped the other ranks\n"));
}

TEST(LaunchTest, ARankThatNeverArrivesEndsTheRunAtTheDeadline) {
  Program program({"never_arrive"});
  EXPECT_EQ(program.Wait(), 1);
  const std::string err = program.err();
  EXPECT_THAT(err, HasSubstr("rank 0: rank 1 did not arrive at file:///"));
  EXPECT_THAT(err, HasSubstr("within 0.5 s; arrived: 0, 2\n"));
}

// The pid that rank 0 prints, once it does.
pid_t PidOfRank0(const Program& program) {
  while (program.out().find('\n') == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return std::stoi(program.out());
}

void ExpectGone(pid_t pid) {
  for (int i = 0; i < 2000 && kill(pid, 0) == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_NE(kill(pid, 0), 0) << "process " << pid << " is still there";
}

TEST(LaunchTest, SigtermStopsTheRanks) {
  Program program({"sleep"});
  const pid_t rank0 = PidOfRank0(program);
  kill(program.pid(), SIGTERM);
  EXPECT_EQ(program.Wait(), 1);
  EXPECT_THAT(program.err(), EndsWith("stopped all ranks on signal 15 (SIGTERM)\n"));
  EXPECT_NE(kill(rank0, 0), 0);
  EXPECT_TRUE(program.LeftBehind().empty());
}

TEST(LaunchTest, RanksDieWithTheLauncher) {
  Program program({"sleep"});
  const pid_t rank0 = PidOfRank0(program);
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.Wait(), 128 + SIGKILL);
  ExpectGone(rank0);
}

TEST(LaunchTest, WorldSizeMustBePositive) { EXPECT_THROW(LaunchSelf({.world_size = 0}, {}), InvalidInput); }

}  // namespace
}  // namespace gradsync::comm
