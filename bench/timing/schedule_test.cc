#include "bench/timing/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

TEST(RoundOrderTest, EveryRoundHasEveryConfigurationOnce) {
  for (int n = 1; n <= 9; ++n) {
    std::vector<int> all;
    for (int i = 0; i < n; ++i) all.push_back(i);
    for (int64_t round = 0; round < 50; ++round) {
      EXPECT_THAT(RoundOrder(n, round, 1), UnorderedElementsAreArray(all)) << n;
    }
  }
}

TEST(RoundOrderTest, IsAFunctionOfTheSeedAndAnotherInEachBlock) {
  const auto block = [](int64_t first_round, uint64_t seed) {
    std::vector<std::vector<int>> orders;
    for (int64_t round = first_round; round < first_round + 10; ++round) {
      orders.push_back(RoundOrder(5, round, seed));
    }
    return orders;
  };
  EXPECT_EQ(block(0, 42), block(0, 42));
  EXPECT_NE(block(0, 42), block(0, 43));
  EXPECT_NE(block(0, 42), block(0, 42 + (uint64_t{1} << 32)));
  EXPECT_NE(block(0, 42), block(10, 42));
}

TEST(RoundOrderTest, EveryTextHasASeedOfItsOwn) {
  EXPECT_EQ(OrderSeed(1, "run, setting"), OrderSeed(1, "run, setting"));
  EXPECT_NE(OrderSeed(1, "run, setting"), OrderSeed(2, "run, setting"));
  EXPECT_NE(OrderSeed(1, "run, setting"), OrderSeed(1, "run, settinq"));
}

class BalanceTest : public ::testing::TestWithParam<int> {};

// Whatever the block.
TEST_P(BalanceTest, EachTakesEachPlaceAndFollowsEachOtherEquallyOften) {
  const int n = GetParam(), times = n % 2 == 0 ? 1 : 2;
  EXPECT_EQ(RoundsPerBlock(n), n * times);
  for (const int64_t block : {0, 1, 7}) {
    std::map<std::pair<int, int>, int> at_place, followed;
    for (int64_t round = block * n * times; round < (block + 1) * n * times; ++round) {
      const std::vector<int> order = RoundOrder(n, round, 3);
      for (int place = 0; place < n; ++place) {
        const int config = order[static_cast<size_t>(place)];
        ++at_place[{config, place}];
        if (place > 0) ++followed[{order[static_cast<size_t>(place) - 1], config}];
      }
    }
    EXPECT_EQ(at_place.size(), static_cast<size_t>(n * n));
    for (const auto& [what, count] : at_place) EXPECT_EQ(count, times);
    EXPECT_EQ(followed.size(), static_cast<size_t>(n * (n - 1)));
    for (const auto& [what, count] : followed) EXPECT_EQ(count, times) << what.first << " " << what.second;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BalanceTest, ::testing::Values(2, 3, 4, 5, 6, 7, 8, 13));

// Two blocks of 42 rounds, and half of one, are asked for: also a machine that is a little slower takes both.
TEST(IsTimeUpTest, AnotherBlockWouldEndTooLate) {
  for (const double round_s : {1.0, 1.2}) {
    EXPECT_FALSE(IsTimeUp(42 * round_s, 105, 42, 42)) << round_s;
    EXPECT_TRUE(IsTimeUp(84 * round_s, 105, 84, 42)) << round_s;
  }
  // Not only one that has begun too late.
  EXPECT_TRUE(IsTimeUp(84, 125, 84, 42));
  EXPECT_FALSE(IsTimeUp(84, 126, 84, 42));
}

TEST(RoundOrderTest, OneConfigurationIsAlone) {
  EXPECT_THAT(RoundOrder(1, 5, 9), ElementsAre(0));
  EXPECT_EQ(RoundsPerBlock(1), 1);
}

}  // namespace
}  // namespace gradsync::bench
