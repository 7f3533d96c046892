// What a profiler sees of //bench:ddp --nvtx.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/testing/run_program.h"
#include "bench/timing/nvtx.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;

ProgramResult RunDdp(const std::vector<std::string>& more, const std::string& log) {
  std::vector<std::string> arguments = {
      "--d_model=16",   "--d_ff=32",        "--num_layers=2",           "--num_heads=2",
      "--seq_len=8",    "--steps=2",        "--vocab_size=64",          "--batch_size=2",
      "--verify=false", "--warmup_steps=0", "--out=" + FreshDirectory()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunProgram("bench/ddp", arguments,
                    {{"NVTX_INJECTION64_PATH", "bench/testing/nvtx_injection.so"}, {"NVTX_LOG", log}});
}

// One rank's ranges, replayed from bench/testing/nvtx_injection.cc's lines.
struct Seen {
  std::map<std::string, int> steps, phases, ops;
  std::map<std::string, int> issued_in;  // collectives, by step and phase
  std::set<std::string> open;            // collectives that have not ended
  int ended = 0;
  std::vector<std::string> faults;
};

Seen Replay(const std::string& text) {
  Seen seen;
  std::map<std::string, std::vector<std::string>> stacks;  // "<category> <name>" by thread
  std::istringstream lines(text);
  std::string thread, verb, category, name;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    words >> thread >> verb;
    std::vector<std::string>& stack = stacks[thread];
    if (verb == "push") {
      std::getline(words >> category >> std::ws, name);
      if (category == "1" && !stack.empty()) seen.faults.push_back("a step inside " + stack.back());
      if (category == "2" && stack.size() != 1) seen.faults.push_back("phase " + name + " not in a step");
      if (category == "3" && (stack.size() < 2 || stack[1] != "2 backward")) {
        seen.faults.push_back("operation " + name + " not in backward");
      }
      ++(category == "1" ? seen.steps : category == "2" ? seen.phases : seen.ops)[name];
      stack.push_back(category + " " + name);
    } else if (verb == "pop") {
      if (stack.empty()) return seen.faults.push_back("a pop too many"), seen;
      stack.pop_back();
    } else if (verb == "start") {
      words >> name;
      seen.open.insert(name);
      if (stack.size() < 2) {
        seen.faults.push_back("a collective outside of a step");
      } else {
        ++seen.issued_in[stack[0].substr(2, stack[0].find(',') - 2) + " " + stack[1].substr(2)];
      }
    } else if (verb == "end") {
      words >> name;
      seen.ended += static_cast<int>(seen.open.erase(name));
    }
  }
  for (const auto& [owner, stack] : stacks) {
    if (!stack.empty()) seen.faults.push_back(stack.back() + " never ends");
  }
  return seen;
}

TEST(DdpNvtxTest, StepsPhasesOperationsAndCollectivesAreNamedAndNested) {
  if (!HaveNvtx()) GTEST_SKIP() << "built without NVTX";
  const std::string directory = FreshDirectory();
  const ProgramResult result = RunDdp({"--nvtx", "--strategies=naive,overlap"}, directory + "/nvtx");
  ASSERT_EQ(result.status, 0) << result.err;
  int ranks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string text = ReadText(entry.path().string());
    EXPECT_THAT(text, HasSubstr(" domain gradsync\n"));
    const Seen seen = Replay(text);
    EXPECT_THAT(seen.faults, testing::IsEmpty());
    EXPECT_EQ(seen.steps, (std::map<std::string, int>{{"naive@gloo, batch 2, sequence 8", 2},
                                                      {"overlap@gloo, batch 2, sequence 8", 2}}));
    EXPECT_EQ(seen.phases, (std::map<std::string, int>{
                               {"backward", 4}, {"forward", 4}, {"optimizer", 4}, {"synchronisation", 4}}));
    EXPECT_GE(seen.ops.size(), 5u);
    // 21 parameters: what naive issues after backward, overlap issues during it. After its first step it
    // broadcasts their order.
    EXPECT_EQ(seen.issued_in, (std::map<std::string, int>{{"naive@gloo synchronisation", 42},
                                                          {"overlap@gloo backward", 42},
                                                          {"overlap@gloo synchronisation", 1}}));
    EXPECT_EQ(seen.ended, 85);
    EXPECT_THAT(seen.open, testing::IsEmpty());
    ++ranks;
  }
  EXPECT_EQ(ranks, 2);
}

// The first of a turn's four is not timed.
TEST(DdpNvtxTest, WeightsOfEachTimedStepHaveAStepBeforeIt) {
  if (!HaveNvtx()) GTEST_SKIP() << "built without NVTX";
  const std::string directory = FreshDirectory();
  ASSERT_EQ(RunDdp({"--nvtx", "--variants=zero1:gather=forward"}, directory + "/nvtx").status, 0);
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    EXPECT_EQ(Replay(ReadText(entry.path().string())).phases["forward"], 2 * 4);
}

TEST(DdpNvtxTest, WithoutTheFlagNothingIsSaid) {
  const std::string directory = FreshDirectory();
  ASSERT_EQ(RunDdp({"--strategies=naive"}, directory + "/nvtx").status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace gradsync::bench
