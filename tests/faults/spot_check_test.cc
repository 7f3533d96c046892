// Gradients that are not the same on all ranks after a timed step, and a rank that fails of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/testing/run_program.h"

namespace gradsync::bench {
namespace {

ProgramResult RunFaulty(const std::string& strategies, const std::string& kind = "corrupt",
                        const std::string& verify = "false", const std::string& count = "1") {
  return RunProgram("tests/faults/faulty_ddp",
                    {"--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=1", "--vocab_size=64",
                     "--batch_size=1", "--seq_len=8", "--world_size=3", "--warmup_steps=1", "--steps=1",
                     "--verify=" + verify, "--strategies=" + strategies, "--out=" + FreshDirectory()},
                    {{"GRADSYNC_TEST_FAULT", "1 optimizer " + count + " " + kind}});
}

// The second time that rank 1 comes to the optimizer is its first timed step.
TEST(SpotCheckTest, NamesVariantStepAndRank) {
  const ProgramResult result = RunFaulty("flat");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::HasSubstr("flat@gloo, timed step 0, batch 1, sequence 8: after it the "
                                               "gradients of rank 1 differ from those of the other ranks\n"));
}

// The third time is the step of the check.
TEST(VerificationTest, EndsTheRunWhereItFails) {
  const ProgramResult result = RunFaulty("flat", "corrupt", /*verify=*/"true", /*count=*/"2");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::HasSubstr("rank 0: flat@gloo: "));
  EXPECT_EQ(RunFaulty("none", "corrupt", "true", "2").status, 0);
}

TEST(FailureTest, OtherRanksSayWhatTheRankFailedOf) {
  const ProgramResult result = RunFaulty("flat", "throw");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, ::testing::ContainsRegex("rank 0: [^\n]* failed after [0-9.]+ s: rank 1 failed: "
                                                   "the fault of the test; in optimizer of flat@gloo"));
}

TEST(SpotCheckTest, RanksMayDifferWhereTheyAreMeantTo) {
  const ProgramResult result = RunFaulty("none");
  EXPECT_EQ(result.status, 0) << result.err;
}

}  // namespace
}  // namespace gradsync::bench
