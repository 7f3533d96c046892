#include "bench/launch/link.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "bench/testing/run_program.h"
#include "comm/testing/rank_threads.h"

namespace gradsync::bench {
namespace {

TEST(InterfaceKindTest, IsReadFromTheSystemsFilesAndTheDriver) {
  const auto kind = [](const char* type, const char* driver) {
    const std::string directory = FreshDirectory();
    std::ofstream(directory + "/type") << type << "\n";
    return InterfaceKind(directory, driver);
  };
  EXPECT_EQ(kind("772", ""), "loopback");
  EXPECT_EQ(kind("1", "virtio_net"), "ethernet");
  EXPECT_EQ(kind("1", ""), "ethernet");
  EXPECT_EQ(kind("1", "veth"), "veth");
  EXPECT_EQ(kind("32", "mlx5_core[ib_ipoib]"), "infiniband");
  EXPECT_EQ(kind("65534", "tun"), "other");
  EXPECT_EQ(InterfaceKind("/nonexistent", ""), "other");
}

TEST(DescribeLinkTest, RanksOfOneHostHaveLoopbackBetweenThemAndMeasureIt) {
  auto groups = comm::MakeGroups("gloo", 2);
  comm::RunRanks(2, [&](int rank) {
    const Fields link = DescribeLink(*groups[static_cast<size_t>(rank)], model::CpuDevice());
    EXPECT_EQ(link.StringOr("kind", ""), "loopback");
    EXPECT_EQ(link.StringOr("interface", ""), "lo");
    EXPECT_EQ(link.Find("rate_bits_per_second"), nullptr);
    EXPECT_GT(link.IntOr("latency_ns", 0), 1000);
    EXPECT_LT(link.IntOr("latency_ns", 0), 1'000'000'000);
    EXPECT_GT(link.DoubleOr("bandwidth_bytes_per_second", 0), 1e6);
    EXPECT_LT(link.DoubleOr("bandwidth_bytes_per_second", 0), 1e12);
  });
}

TEST(DescribeLinkTest, ThreadsAndASingleRankHaveNone) {
  auto groups = comm::MakeGroups("local", 2);
  EXPECT_EQ(DescribeLink(*groups[0], model::CpuDevice()).StringOr("kind", ""), "none");
  auto alone = comm::MakeGroups("gloo", 1);
  EXPECT_EQ(DescribeLink(*alone[0], model::CpuDevice()).StringOr("kind", ""), "none");
}

}  // namespace
}  // namespace gradsync::bench
