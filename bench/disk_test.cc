// What a run does when its records or its answer cannot be written, or its directories cannot be used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/records/record.h"
#include "bench/testing/run_program.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kDdp[] = "bench/ddp";

std::vector<std::string> Arguments(const std::string& out, int steps) {
  return {"--model=tiny",
          "--num_layers=1",
          "--d_model=32",
          "--d_ff=32",
          "--num_heads=1",
          "--vocab_size=300",
          "--batch_size=1",
          "--seq_len=8",
          "--verify=false",
          "--strategies=core,flat",
          "--warmup_steps=0",
          "--out=" + out,
          "--steps=" + std::to_string(steps)};
}

size_t NumSteps(const std::string& directory) {
  size_t num_steps = 0;
  for (const Record& record : RecordsIn(directory, /*running=*/true)) {
    num_steps += record.samples.at("forward_ns").size();
  }
  return num_steps;
}

// A limit on the size of files stands for a disk that is full.
TEST(DiskTest, WhatWasWrittenBeforeTheDiskWasFullIsThere) {
  const std::string out = FreshDirectory();
  // More than the 512 KiB that ThreadSanitizer writes to a file of its own.
  std::string command = "trap '' XFSZ; ulimit -f 1100; exec bench/ddp";
  for (const std::string& argument : Arguments(out, 100'000)) command += " " + argument;
  const ProgramResult result = RunProgram("/bin/sh", {"-c", command});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write " + out));
  EXPECT_THAT(result.err, HasSubstr(".jsonl: File too large\n"));
  EXPECT_GT(NumSteps(out), 10u);
}

TEST(DiskTest, ADirectoryThatVanishesIsNoticed) {
  const std::string out = FreshDirectory() + "/records";
  RunningProgram program(kDdp, Arguments(out, 100'000));
  while (!std::filesystem::exists(out) || NumSteps(out) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::filesystem::remove_all(out);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("cannot write " + out));
  EXPECT_THAT(result.err, HasSubstr(".jsonl: the file was removed\n"));
}

TEST(DiskTest, ADirectoryThatMayNotBeWrittenToIsRefused) {
  // Root may write anywhere, unless it lacks this capability.
  prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0);
  const std::string out = FreshDirectory();
  std::filesystem::permissions(out, std::filesystem::perms(0555));
  const ProgramResult result = RunProgram(kDdp, Arguments(out, 1));
  std::filesystem::permissions(out, std::filesystem::perms(0755));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "--out=" + out + ": cannot be written to: Permission denied\n");
}

TEST(DiskTest, ACurrentDirectoryThatIsGoneIsOneLine) {
  for (const std::string argument : {"--out=here", "--answer"}) {
    const ProgramResult result =
        RunProgram("/bin/sh", {"-c", R"(unset BUILD_WORKING_DIRECTORY BUILD_WORKSPACE_DIRECTORY
                             cd "$1" && rmdir "$1" && exec "$2" "$3" 2>&1)",
                               "sh", FreshDirectory(), std::filesystem::absolute(kDdp).string(), argument});
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out,
              "the current directory cannot be used: No such file or directory; change to a directory that "
              "exists\n");
  }
}

TEST(DiskTest, AnAnswerThatCannotBeWrittenIsAFailure) {
  const std::string out = FreshDirectory();
  std::string command = "exec bench/ddp";
  for (const std::string& argument : Arguments(out, 3)) command += " " + argument;
  for (const char* const redirection : {" > /dev/full", " >&-"}) {
    const ProgramResult result = RunProgram("/bin/sh", {"-c", command + redirection});
    EXPECT_EQ(result.status, 1) << redirection;
    EXPECT_THAT(result.err, HasSubstr("cannot write to stdout")) << redirection;
  }
  EXPECT_GT(NumSteps(out), 0u);
  const ProgramResult help = RunProgram("/bin/sh", {"-c", "exec bench/ddp --help > /dev/full"});
  EXPECT_EQ(help.status, 1);
  EXPECT_EQ(help.err, "cannot write to stdout: No space left on device\n");
}

TEST(DiskTest, TwoRunsMayShareADirectory) {
  const std::string out = FreshDirectory();
  RunningProgram first(kDdp, Arguments(out, 5));
  RunningProgram second(kDdp, Arguments(out, 5));
  EXPECT_EQ(first.Wait().status, 0);
  EXPECT_EQ(second.Wait().status, 0);
  std::set<std::string> runs;
  const std::vector<Record> records = RecordsIn(out);
  for (const Record& record : records) {
    runs.insert(record.run_id);
    EXPECT_THAT(record.samples.at("forward_ns"), SizeIs(5));
  }
  EXPECT_THAT(runs, SizeIs(2));
  EXPECT_THAT(records, SizeIs(8));  // two strategies on two ranks, twice
}

}  // namespace
}  // namespace gradsync::bench
