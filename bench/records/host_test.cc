#include "bench/records/host.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace gradsync::bench {
namespace {

TEST(EntryTest, IsFoundByItsKey) {
  const std::string path = ::testing::TempDir() + "/meminfo";
  std::ofstream(path) << "MemTotal:       24576000 kB\nMemAvailable:   23000000 kB\nEmpty:\nLast:1";
  EXPECT_EQ(ReadEntry(path, "MemAvailable", ": kB"), "23000000");
  EXPECT_EQ(ReadEntry(path, "Last", ": kB"), "1");
  EXPECT_EQ(ReadEntry(path, "Empty", ": kB"), "");
  EXPECT_EQ(ReadEntry(path, "SwapFree", ": kB"), "");
  EXPECT_EQ(ReadEntry("/nonexistent", "MemAvailable", ": kB"), "");
}

TEST(MemoryTest, ThisMachineHasSome) {
  ASSERT_TRUE(AvailableMemoryBytes().has_value());
  EXPECT_GT(*AvailableMemoryBytes(), 0);
}

}  // namespace
}  // namespace gradsync::bench
