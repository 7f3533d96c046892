#include "bench/records/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
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

constexpr double kNoQuota = std::numeric_limits<double>::infinity();
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Of each version, a group of its own with a limit above it.
class ControlGroupsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  ControlGroups Read() const { return ControlGroups(root_, root_ / "own"); }

  const std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) /
                                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ControlGroupsTest, OfVersion2) {
  Write("own", "0::/a/b\n");
  EXPECT_EQ(Read().CpuQuota(), kNoQuota);
  EXPECT_EQ(Read().MemoryLeftBytes(), kNoLimit);
  Write("a/b/cpu.max", "max 100000\n");
  Write("a/b/memory.max", "max\n");
  Write("a/b/memory.current", "5\n");
  EXPECT_EQ(Read().CpuQuota(), kNoQuota);
  EXPECT_EQ(Read().MemoryLeftBytes(), kNoLimit);
  Write("a/cpu.max", "150000 100000\n");
  Write("cpu.max", "300000 100000\n");
  Write("a/cpu.stat", "usage_usec 9\nnr_periods 38\nnr_throttled 37\n");
  Write("a/memory.max", "1000\n");
  Write("a/memory.current", "300\n");
  Write("memory.max", "2000\n");
  Write("memory.current", "1900\n");
  EXPECT_EQ(Read().CpuQuota(), 1.5);
  EXPECT_EQ(Read().CpuPeriods().all, 38);
  EXPECT_EQ(Read().CpuPeriods().throttled, 37);
  EXPECT_EQ(Read().MemoryLeftBytes(), 100);
  Write("memory.stat", "anon 7\nfile 50\ninactive_file 20\nactive_file 30\n");
  EXPECT_EQ(Read().MemoryLeftBytes(), 150);
}

// In a container, whose path on the host is not mounted.
TEST_F(ControlGroupsTest, OfVersion1) {
  Write("own", "9:name=systemd:/\n4:memory:/docker/x\n2:cpu,cpuacct:/\nmalformed\n0::/\n");
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().CpuQuota(), kNoQuota);
  Write("cpu/cpu.cfs_quota_us", "50000\n");
  Write("cpu/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 7\n");
  Write("memory/memory.limit_in_bytes", "1000\n");
  Write("memory/memory.usage_in_bytes", "1300\n");
  EXPECT_EQ(Read().CpuQuota(), 0.5);
  EXPECT_EQ(Read().CpuPeriods().all, 4);
  EXPECT_EQ(Read().CpuPeriods().throttled, 3);
  EXPECT_EQ(Read().MemoryLeftBytes(), 0);
  Write("memory/memory.stat", "inactive_file 400\nactive_file 200\ntotal_inactive_file 400\n");
  EXPECT_EQ(Read().MemoryLeftBytes(), 300);
  EXPECT_EQ(ControlGroups("/nonexistent", "/nonexistent").CpuQuota(), kNoQuota);
}

TEST(NumaTest, TheNodeIsThere) {
  if (!std::filesystem::exists("/sys/devices/system/node")) GTEST_SKIP() << "the system knows no nodes";
  EXPECT_TRUE(std::filesystem::exists("/sys/devices/system/node/node" + NumaNode()));
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
