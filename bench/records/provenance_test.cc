#include "bench/records/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradsync::bench {
namespace {

using ::testing::MatchesRegex;

TEST(ProvenanceTest, DescribesThisMachine) {
  const char* argv[] = {"bench/ddp", "--model=small", "--corpus=my text's.txt", ""};
  const Provenance provenance = CollectProvenance(4, argv);
  EXPECT_FALSE(provenance.host.empty());
  EXPECT_THAT(provenance.kernel, MatchesRegex("Linux [0-9].*"));
  EXPECT_GE(provenance.cpu_count, 1);
  EXPECT_GT(provenance.memory_bytes, int64_t{1} << 20);
  EXPECT_THAT(provenance.compiler, MatchesRegex("(gcc|clang) [0-9].*"));
  EXPECT_THAT(provenance.build, MatchesRegex("(opt|dbg).*"));
  EXPECT_THAT(provenance.libraries.StringOr("gloo", ""), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(provenance.libraries.StringOr("onednn", ""), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(provenance.command_line, R"(bench/ddp --model=small '--corpus=my text'\''s.txt' '')");
}

TEST(ProvenanceTest, TheStampIsACommitAndWhetherFilesDiffered) {
  Provenance provenance;
  SetCommit("0123456789abcdef0123456789abcdef01234567", provenance);
  EXPECT_EQ(provenance.gradsync_commit, "0123456789abcdef0123456789abcdef01234567");
  EXPECT_FALSE(provenance.dirty);
  SetCommit("76543210-dirty", provenance);
  EXPECT_EQ(provenance.gradsync_commit, "76543210");
  EXPECT_TRUE(provenance.dirty);
}

// A test is not stamped, so that a commit alone does not run it again.
TEST(ProvenanceTest, AProgramWithoutAStampHasNoCommitAndMayHaveChanges) {
  EXPECT_EQ(CollectProvenance(0, nullptr).gradsync_commit, "unknown");
  EXPECT_TRUE(CollectProvenance(0, nullptr).dirty);
}

}  // namespace
}  // namespace gradsync::bench
