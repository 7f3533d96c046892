#include "bench/records/host.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

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

TEST(MemoryTest, ThePeakOfAProcessStartsAgain) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  ResetPeakResidentBytes();
  const int64_t before = PeakResidentBytes().value();
  EXPECT_NEAR(static_cast<double>(ResidentBytes().value()), static_cast<double>(before), kBytes / 8.0);
  {
    const std::vector<char> touched(kBytes, 1);
    EXPECT_GE(ResidentBytes().value() - before, kBytes / 2);
  }
  EXPECT_LT(ResidentBytes().value() - before, kBytes / 2);
  EXPECT_GE(PeakResidentBytes().value() - before, kBytes / 2);
  ResetPeakResidentBytes();
  EXPECT_LT(PeakResidentBytes().value() - before, kBytes / 2);
}

}  // namespace
}  // namespace gradsync::bench
