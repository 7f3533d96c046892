// The benchmarks as a user meets them who got the command line wrong: one line, exit status 2, no rank
// started.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/launch/rank_options.h"
#include "bench/testing/run_program.h"
#include "model/base/error.h"
#include "model/base/exit_status.h"
#include "model/base/version.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kAllReduce[] = "bench/all_reduce";
constexpr char kCompare[] = "bench/compare";
constexpr char kDdp[] = "bench/ddp";
constexpr char kGpus[] = "bench/gpus";
constexpr char kSuite[] = "bench/suite";

void ExpectRefusal(const ProgramResult& result, const std::string& start) {
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith(start));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
}

struct Case {
  const char* program;
  std::vector<std::string> arguments;
  const char* line;  // its beginning
};

class RefusalTest : public ::testing::TestWithParam<Case> {};

TEST_P(RefusalTest, IsOneLineAndStatus2) {
  ExpectRefusal(RunProgram(GetParam().program, GetParam().arguments), GetParam().line);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusalTest,
    ::testing::Values(
        Case{kAllReduce, {"--sizes=6"}, "--sizes=6: expected a multiple of the 4 bytes of an f32\n"},
        Case{kAllReduce, {"--iterations=0"}, "--iterations=0: expected an integer from 1 to 1000000\n"},
        Case{kAllReduce, {"--backend=smoke"}, "--backend=smoke: expected gloo, "},
        Case{kAllReduce, {"--op=max"}, "--op=max: expected sum or mean\n"},
        Case{kAllReduce, {"--world_size=0"}, "--world_size=0: expected an integer from 1 to 4096\n"},
        Case{kAllReduce,
             {"--dtype=bf16", "--world_size=17"},
             "--dtype=bf16: sums over 17 ranks are not exact and cannot be checked, expected at most 16 "
             "ranks\n"},
        // Where there is a GPU there are not 4096 of them.
        Case{kAllReduce, {"--backend=nccl"}, "backend nccl: device is cpu, expected cuda (--device=cuda)\n"},
        Case{kAllReduce,
             {"--device=cuda", "--backend=nccl", "--world_size=4096"},
             model::CudaDeviceCount() == 0 ? "--device=cuda: " : "backend nccl: 4096 ranks on this host, "},
        Case{kAllReduce,
             {"--strategies=core"},
             "--strategies: all_reduce has no such flag; --help lists them\n"},
        Case{kDdp,
             {"--model=huge"},
             "--model=huge: expected tiny, small, medium, large, xl, 2.7b or resnet50\n"},
        Case{kDdp, {"--dtype=f16"}, "--dtype=f16: expected f32, f64 or bf16; did you mean bf16?\n"},
        Case{kSuite, {"--peer_modes=eager"}, "--peer_modes: needs --with_peers=pytorch\n"},
        Case{kAllReduce, {"--collectives=all_gather", "--op=mean"}, "--op: none of --collectives reduces\n"},
        Case{kDdp, {"--backend=gloo,smoke"}, "--backend=gloo,smoke: expected "},
        Case{kAllReduce, {"--repeats=2"}, "--repeats: all_reduce has no such flag; --help lists them\n"},
        Case{kAllReduce,
             {"--threads_per_rank=1"},
             "--threads_per_rank: all_reduce has no such flag; --help lists them\n"},
        Case{kDdp, {"--no-verify"}, "--no-verify: ddp has no such flag; did you mean --verify=false?\n"},
        Case{kAllReduce,
             {"--backend=shm", "--comm_threads=4"},
             "--comm_threads=4: no backend here runs collectives at the same time: shm\n"},
        Case{kAllReduce,
             {"--backend=shm", "--interface=lo"},
             "--interface=lo: no backend here sends over a network: shm\n"},
        // One loop; others in flight would be the group's.
        Case{kAllReduce,
             {"--backend=shm,memory_limit", "--dtype=bf16", "--sizes=8"},
             "--backend=memory_limit: found sum of bf16, expected sum of f32\n"},
        Case{kAllReduce,
             {"--backend=memory_limit", "--in_flight=1,4", "--sizes=8"},
             "--backend=memory_limit: expected --in_flight=1\n"},
        // Every rank has a part.
        Case{kAllReduce,
             {"--collectives=all_gather", "--sizes=8,16", "--world_size=3"},
             "--sizes=8: expected a multiple of the 12 bytes of 3 f32, one for each rank\n"},
        Case{kDdp,
             {"--out=/proc/nowhere"},
             "--out=/proc/nowhere: cannot be made: No such file or directory\n"},
        Case{kCompare,
             {"--buffer_elements=3Mi,4M"},
             "--buffer_elements=3Mi,4M: expected a number of elements such as 4096, 512Ki, 3Mi, or a "
             "comma-separated list without repeats\n"},
        Case{kCompare, {"--buffer_elements=0"}, "--buffer_elements=0: expected a number of elements "},
        Case{kCompare, {"--units=MB"}, "--units=MB: expected bytes or published\n"},
        Case{kCompare, {"--preset=full"}, "--preset=full: expected scaled or published\n"},
        Case{kSuite, {"--preset=all"}, "--preset=all: expected smoke, quick or reference\n"},
        Case{kSuite, {"--vocabulary=9"}, "--vocabulary: suite has no such flag; --help lists them\n"},
        Case{kSuite, {"--model=xl"}, "--model: suite has no such flag; --help lists them\n"},
        // Flags that only a later benchmark of the preset refuses: nothing has been measured.
        Case{kSuite, {"--preset=smoke", "--corpus=/nonexistent"}, "--corpus=/nonexistent: "},
        Case{kSuite,
             {"--preset=smoke", "--with_peers=pytorch", "--comm_threads=3"},
             "--comm_threads=3: --with_peers"},
        Case{kSuite, {"--backend=nccl"}, "backend nccl: device is cpu, expected cuda (--device=cuda)\n"},
        Case{kSuite, {"--out=/proc/nowhere"}, "--out=/proc/nowhere: cannot be made: "}));

TEST(CheckTest, MeasuresNothing) {
  for (const char* const program : {kAllReduce, kCompare, kDdp}) {
    const std::string out = FreshDirectory();
    const ProgramResult result = RunProgram(program, {"--check_only", "--out=" + out});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(std::filesystem::is_empty(out));
    ExpectRefusal(RunProgram(program, {"--check_only", "--world_size=0"}), "--world_size=0: expected ");
  }
  EXPECT_EQ(RunProgram(kAllReduce, {"--check_only", "--sizes=4096TiB"}).status, kLacking);
}

// No bad argument: elsewhere the same would do.
TEST(MemoryTest, TooLittleIsOneLineAndAStatusOfItsOwn) {
  const auto expect = [](const char* program, const std::vector<std::string>& arguments, const char* line) {
    const ProgramResult result = RunProgram(program, arguments);
    EXPECT_EQ(result.status, kLacking);
    EXPECT_THAT(result.err, StartsWith(line));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  };
  expect(kAllReduce, {"--sizes=4096TiB"}, "--sizes=4096TiB: 2 ranks need about 24576 TiB on this host, ");
  // A buffer, and what it may need beside it, for each backend; one pattern for all.
  expect(kAllReduce, {"--backend=gloo,shm", "--sizes=4096TiB"},
         "--sizes=4096TiB: 2 ranks need about 40960 TiB on this host, ");
  expect(kDdp, {"--model=2.7b", "--batch_size=4096", "--seq_len=4096"}, "--model=2.7b: 2 ranks need about ");
  expect(kCompare, {"--batch_size=100000", "--image_size=224"}, "--model=resnet50: 2 ranks need about ");
}

TEST(LauncherTest, WorldSizeMustAgreeWithTheLauncher) {
  const std::vector<std::pair<std::string, std::string>> torchrun = {
      {"RANK", "0"},        {"WORLD_SIZE", "2"},         {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_PORT", "1"}, {"MASTER_ADDR", "127.0.0.1"}};
  for (const char* const program : {kAllReduce, kCompare, kDdp}) {
    ExpectRefusal(RunProgram(program, {"--world_size=4"}, torchrun),
                  "--world_size=4: torchrun started 2 ranks\n");
  }
  ExpectRefusal(RunProgram(kDdp, {"--repeats=4"}, torchrun),
                "--repeats=4: torchrun starts the ranks, and repeats them itself; expected 1, and "
                "GRADSYNC_LAUNCH=NAME,i for launch i\n");
  ExpectRefusal(RunProgram(kDdp, {"--precision=2%"}, torchrun),
                "--precision: needs launches that this program starts, but torchrun started the ranks\n");
  ExpectRefusal(RunProgram(kDdp, {"--choose"}, torchrun),
                "--choose: needs launches that this program starts, but torchrun started the ranks\n");
  for (const char* const launch : {"monday", "monday,", "monday,x", "monday,-1", ",1", "a,b,1"}) {
    auto environment = torchrun;
    environment.emplace_back("GRADSYNC_LAUNCH", launch);
    ExpectRefusal(
        RunProgram(kAllReduce, {}, environment),
        Join("GRADSYNC_LAUNCH is '", launch, "', expected a name for several launches and this one's "));
  }
  ExpectRefusal(RunProgram(kSuite, {}, torchrun),
                "suite: was started by torchrun; it starts its ranks itself\n");
}

TEST(LauncherTest, WhatWouldBeIgnoredIsRefused) {
  ExpectRefusal(RunProgram(kAllReduce, {"--backend=shm"}, {{"GRADSYNC_RENDEZVOUS", "tcp://10.0.0.1:5"}}),
                "GRADSYNC_RENDEZVOUS=tcp://10.0.0.1:5: is of no use without a launcher");
  ExpectRefusal(RunProgram(kAllReduce, {"--backend=shm"}, {{"GRADSYNC_LAUNCH", "monday,0"}}),
                "GRADSYNC_LAUNCH=monday,0: is of no use without a launcher");
  EXPECT_EQ(RunProgram(kGpus, {"--help"}).status, 0);
  EXPECT_EQ(RunProgram(kGpus, {"--all"}).status, 2);
}

// Of what this process may use.
TEST(LauncherTest, RanksShareTheCpusByDefault) {
  const auto threads = [](std::vector<std::string> arguments) {
    const std::string out = FreshDirectory();
    arguments.insert(arguments.end(),
                     {"--strategies=none", "--num_layers=1", "--d_model=8", "--d_ff=8", "--num_heads=1",
                      "--vocab_size=16", "--seq_len=4", "--warmup_steps=0", "--steps=1", "--out=" + out});
    const ProgramResult result = RunProgram(kDdp, arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return RecordsIn(out).front().config.IntOr("threads_per_rank", 0);
  };
  const std::string all = ReadOwnCpus();
  EXPECT_EQ(threads({"--world_size=1"}), CountThreadsPerRank(std::vector{all}));
  EXPECT_EQ(threads({"--world_size=2"}), CountThreadsPerRank(std::vector{all, all}));
  EXPECT_EQ(threads({"--world_size=1", "--threads_per_rank=3"}), 3);
}

TEST(LauncherTest, ATemporaryDirectoryThatIsNotThereIsNamed) {
  ExpectRefusal(
      RunProgram(kAllReduce, {"--backend=shm", "--out=" + FreshDirectory()}, {{"TMPDIR", "/nonexistent"}}),
      "TMPDIR=/nonexistent: cannot make /nonexistent/gradsync.");
}

TEST(AnswerTest, IsTheLastScreenAndNamesTheNextCommand) {
  const std::string out = FreshDirectory() + "/of 2";
  const ProgramResult result =
      RunProgram(kAllReduce, {"--backend=shm", "--sizes=8,1KiB", "--iterations=2", "--out=" + out});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nall_reduce of 8B "));
  EXPECT_THAT(result.out, HasSubstr("\nchecks      every sum is right\n"));
  EXPECT_THAT(result.out, EndsWith(Join("Next: ./bazelw run //tools:report -- '", out,
                                        "' --out=report.html, or //tools:summarize with --details\n")));
}

TEST(HelpTest, NamesEveryFlagAndExitsWith0) {
  for (const char* const program : {kAllReduce, kCompare, kDdp, kSuite}) {
    const ProgramResult result = RunProgram(program, {"--help"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.err, "");
    for (const char* const flag : {"--world_size", "--device", "--timeout", "--out", "--help="})
      EXPECT_THAT(result.out, HasSubstr(flag)) << program;
    EXPECT_LE(std::ranges::count(result.out, '\n'), 52) << program;
    const std::string name = std::filesystem::path(program).filename();
    EXPECT_THAT(result.out, HasSubstr("\n  ./bazelw run //bench:" + name + " -- ")) << program;
    EXPECT_THAT(result.out,
                ::testing::AnyOf(HasSubstr("\nFlags of " + name + ":"), Not(HasSubstr("Flags of "))));
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 112) << line;
    EXPECT_THAT(RunProgram(program, {"--help=timeout"}).out, HasSubstr("Default: 1m.")) << program;
  }
}

TEST(HelpTest, EveryProgramTellsItsVersion) {
  for (const std::string program : {kAllReduce, kCompare, kDdp, kGpus, kSuite}) {
    const ProgramResult result = RunProgram(program, {"--version"});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out, Join(program.substr(6), " of gradsync ", kVersion, "\n"));
  }
}

TEST(HelpTest, HasTheWordsOfAnOption) {
  EXPECT_THAT(RunProgram(kDdp, {"--help=strategies"}).out,
              HasSubstr("\n        gather=update: when weights are gathered, in this step or the next "
                        "(update or forward)\n"));
}

// The second benchmark refuses the flag. The first one has left nothing, and there is no directory for
// results.
TEST(SuiteTest, ABadFlagEndsItBeforeTheFirstMeasurement) {
  for (const std::string out : {"", "/out"}) {
    const std::string workspace = FreshDirectory();
    std::vector<std::string> arguments = {"--preset=smoke", "--corpus=/nonexistent"};
    if (!out.empty()) arguments.push_back("--out=" + workspace + out);
    ExpectRefusal(RunProgram(kSuite, arguments, {{"BUILD_WORKSPACE_DIRECTORY", workspace}}),
                  "--corpus=/nonexistent: ");
    EXPECT_TRUE(std::filesystem::is_empty(workspace)) << out;
  }
}

TEST(SuiteTest, AFailedExperimentIsReportedAndTheOthersGoOn) {
  const std::string out = FreshDirectory();
  const ProgramResult result = RunProgram(kSuite, {"--preset=smoke", "--interface=nowhere0", "--out=" + out});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("[3/3] bucket sizes, a narrow resnet50"));
  EXPECT_THAT(result.err, HasSubstr("nowhere0"));
  EXPECT_THAT(result.err, HasSubstr("\nall-reduce: all_reduce exited with status "));
  EXPECT_THAT(result.err, HasSubstr("\ntiny, every strategy: ddp exited with status "));
  EXPECT_THAT(result.err, HasSubstr("\nbucket sizes, a narrow resnet50: compare exited with status "));
}

// With scripts in place of the programs: `ddp` finds memory for the two smallest models, `compare` for none.
// As with `bazel run`, only the suite itself has a directory of data files beside it.
TEST(SuiteTest, WhatFindsTooLittleMemoryWhenItStartsIsLeftOut) {
  const std::string suite = FreshDirectory() + "/suite", runfiles = suite + ".runfiles",
                    out = FreshDirectory();
  std::filesystem::copy_file(kSuite, suite);
  const auto script = [&](const std::string& path, const char* text) {
    const std::filesystem::path file = runfiles + "/gradsync/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\ntest -x \"$RUNFILES_DIR/gradsync/tools/summarize\" || exit 9\n"
                        << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  };
  script("bench/all_reduce", "exit 0\n");
  script("bench/ddp", "case \"$*\" in *=small*|*=tiny*) exit 0 ;; esac\necho too large >&2\nexit 4\n");
  script("bench/compare", "exit 4\n");
  script("tools/report", "exit 4\n");
  script("tools/summarize", "for a; do case $a in --out=*) echo made >\"${a#--out=}\" ;; esac; done\n");
  const ProgramResult result = RunProgram(suite, {"--preset=reference", "--out=" + out},
                                          {{"RUNFILES_DIR", ""}, {"RUNFILES_MANIFEST_FILE", ""}});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* const model : {"xl", "large", "medium"})
    EXPECT_THAT(result.out, HasSubstr(Join("[4/5] ", model, ", traces: left out, for want of memory\n")));
  EXPECT_THAT(result.out, HasSubstr("[4/5] small, traces: 0\n[5/5] "));
  EXPECT_THAT(result.out, HasSubstr("[5/5] bucket sizes, resnet50, scaled: left out, for want of memory\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("tiny")));
  EXPECT_EQ(ReadText(out + "/tables.json"), "made\n");
  EXPECT_FALSE(std::filesystem::exists(out + "/report.html"));
}

// Processes with the text on their command line.
int NumProcessesWith(const std::string& text) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (ReadText(entry.path().string() + "/cmdline").find(text) != std::string::npos) ++count;
  }
  return count;
}

TEST(SuiteTest, StopsWithAllItHasStartedWhenItIsAskedTo) {
  const std::string out = FreshDirectory();
  RunningProgram suite(kSuite, {"--preset=smoke", "--out=" + out});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  const auto has_begun = [&](const char* experiment) {
    return std::ranges::any_of(RecordsIn(out, /*running=*/true),
                               [&](const Record& record) { return record.experiment == experiment; });
  };
  while (!has_begun("ddp")) {
    ASSERT_FALSE(suite.has_ended()) << suite.err();
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << suite.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(suite.pid(), SIGTERM);
  const ProgramResult stopped = suite.Wait();
  EXPECT_EQ(stopped.status, 128 + SIGTERM);
  EXPECT_THAT(stopped.err,
              HasSubstr("suite: stopped by signal 15 (SIGTERM) during [2/3] tiny, every strategy; "
                        "its records so far are in " +
                        out + "\n"));
  EXPECT_EQ(NumProcessesWith(out), 0);
  EXPECT_FALSE(std::filesystem::exists(out + "/tables.md"));

  EXPECT_TRUE(has_begun("all_reduce"));
  // They would mix with others.
  EXPECT_THAT(RunProgram(kSuite, {"--preset=smoke", "--out=" + out}).err,
              HasSubstr(": there are records of another run, expected an empty or a new directory\n"));
}

// A line for each experiment, then the answer. Where there is no matplotlib, one says how to get the report.
// Under ThreadSanitizer the smoke suite takes minutes.
TEST(SuiteTest, SmokeRunsEveryExperimentOnceAndWritesTables) {
  const std::string out = FreshDirectory(), without = FreshDirectory();
  std::ofstream(without + "/matplotlib.py") << "raise ImportError\n";
  const ProgramResult result =
      RunningProgram(kSuite, {"--preset=smoke", "--out=" + out}, {{"PYTHONPATH", without}})
          .Wait(std::chrono::seconds(1000));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("report: no matplotlib: `./bazelw run //tools:report -- " + out +
                                    " --out=report.html` installs it"));
  EXPECT_THAT(result.out, EndsWith("\nAll tables, commands, flags: " + out + "/tables.md\n"));
  EXPECT_FALSE(std::filesystem::exists(out + "/report.html"));
  EXPECT_THAT(result.out, MatchesRegex("[[]1/3] all-reduce: [0-9ms]+\n"
                                       "[[]2/3] tiny, every strategy: [0-9ms]+\n"
                                       "[[]3/3] bucket sizes, a narrow resnet50: [0-9ms]+\n\n(.|\n)*"));
  std::map<std::string, std::set<std::string>> run_ids;
  for (const Record& record : RecordsIn(out)) {
    run_ids[record.experiment + record.config.StringOr("model", "")].insert(record.run_id);
    EXPECT_FALSE(record.checks.empty());
  }
  EXPECT_EQ(run_ids.size(), 3u);
  for (const auto& [experiment, ids] : run_ids) EXPECT_EQ(ids.size(), 1u) << experiment;
  for (const char* const file : {"/tables.md", "/tables.csv", "/tables.json"})
    EXPECT_GT(ReadText(out + file).size(), 1000u) << file;
}

}  // namespace
}  // namespace gradsync::bench
