#include "tools/records/in_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace gradsync::tools {
namespace {

TEST(MakeInOrderTest, TakesEveryPieceInOrderWithItsSlotAlone) {
  constexpr size_t kPieces = 500;
  std::vector<size_t> made(NumSlots());
  std::vector<std::atomic<int>> users(NumSlots());
  std::atomic<bool> shared = false;
  std::vector<size_t> taken;
  const std::thread::id here = std::this_thread::get_id();
  MakeInOrder(
      kPieces,
      [&](size_t piece, size_t slot) {
        if (users[slot].fetch_add(1) != 0) shared = true;
        made[slot] = piece;
      },
      [&](size_t piece, size_t slot) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        EXPECT_EQ(made[slot], piece);
        taken.push_back(piece);
        users[slot].fetch_sub(1);
      });
  EXPECT_FALSE(shared);
  ASSERT_EQ(taken.size(), kPieces);
  for (size_t i = 0; i < kPieces; ++i) EXPECT_EQ(taken[i], i);
}

TEST(MakeInOrderTest, ASinglePieceNeedsNoThread) {
  std::vector<std::thread::id> threads;
  MakeInOrder(
      0, [&](size_t, size_t) { threads.emplace_back(); }, [&](size_t, size_t) { threads.emplace_back(); });
  EXPECT_TRUE(threads.empty());
  MakeInOrder(
      1, [&](size_t, size_t) { threads.push_back(std::this_thread::get_id()); }, [](size_t, size_t) {});
  EXPECT_THAT(threads, testing::ElementsAre(std::this_thread::get_id()));
}

TEST(MakeInOrderTest, ThrowsOnceNothingRuns) {
  std::atomic<int> running = 0;
  const auto make = [&](size_t piece, size_t) {
    ++running;
    std::this_thread::yield();
    --running;
    if (piece == 3) throw std::runtime_error("piece 3");
  };
  std::vector<size_t> taken;
  EXPECT_THROW(MakeInOrder(100, make, [&](size_t piece, size_t) { taken.push_back(piece); }),
               std::runtime_error);
  EXPECT_EQ(running, 0);
  EXPECT_THAT(taken, testing::ElementsAre(0, 1, 2));
  EXPECT_THROW(MakeInOrder(
                   100, [](size_t, size_t) {}, [](size_t, size_t) { throw std::logic_error("taken"); }),
               std::logic_error);
}

}  // namespace
}  // namespace gradsync::tools
