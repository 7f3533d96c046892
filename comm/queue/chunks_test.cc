#include "comm/queue/chunks.h"

#include <gtest/gtest.h>

#include <string>

namespace gradsync::comm {
namespace {

TEST(WholeLinesTest, AreMultiplesOf64BytesAndAtLeastOne) {
  EXPECT_EQ(WholeLines(0), 64u);
  EXPECT_EQ(WholeLines(63), 64u);
  EXPECT_EQ(WholeLines(128), 128u);
  EXPECT_EQ(WholeLines(191), 128u);
}

// A vector of fewer bytes than ranks, of a rest, and of nothing.
TEST(SlicesTest, OfRanksBeginOnCacheLinesAndCoverEverything) {
  for (const size_t total : {0, 3, 64, 1000, 4096, 1'000'003}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const Slices slices = Slices::OfRanks(total, ranks);
      size_t end = 0;
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank) {
        EXPECT_EQ(slices.begin(rank), end);
        EXPECT_TRUE(slices.begin(rank) % 64 == 0 || slices.bytes(rank) == 0) << total << " of " << ranks;
        end += slices.bytes(rank);
      }
      EXPECT_EQ(end, total) << ranks;
    }
  }
}

TEST(SlicesTest, CountThoseThatHaveBytes) {
  EXPECT_EQ(Slices(0, 10).count(), 0u);
  EXPECT_EQ(Slices(10, 10).count(), 1u);
  EXPECT_EQ(Slices(11, 10).count(), 2u);
  EXPECT_EQ(Slices(11, 10).bytes(1), 1u);
  EXPECT_EQ(Slices(11, 10).bytes(2), 0u);
}

std::string Order(int64_t count, int64_t depth) {
  std::string order;
  Pipeline(
      count, depth, [&](int64_t i) { order += "s" + std::to_string(i); },
      [&](int64_t i) { order += "f" + std::to_string(i); });
  return order;
}

TEST(PipelineTest, StartsAheadOfWhatItFinishes) {
  EXPECT_EQ(Order(0, 3), "");
  EXPECT_EQ(Order(3, 1), "s0f0s1f1s2f2");
  EXPECT_EQ(Order(4, 2), "s0s1f0s2f1s3f2f3");
  EXPECT_EQ(Order(2, 3), "s0s1f0f1");
}

}  // namespace
}  // namespace gradsync::comm
