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
    return ReadInterfaceKind(directory, driver);
  };
  EXPECT_EQ(kind("772", ""), "loopback");
  EXPECT_EQ(kind("1", "virtio_net"), "ethernet");
  EXPECT_EQ(kind("1", ""), "ethernet");
  EXPECT_EQ(kind("1", "veth"), "veth");
  EXPECT_EQ(kind("32", "mlx5_core[ib_ipoib]"), "infiniband");
  EXPECT_EQ(kind("65534", "tun"), "other");
  EXPECT_EQ(ReadInterfaceKind("/nonexistent", ""), "other");
}

TEST(DescribeLinkTest, RanksOfOneHostHaveLoopbackBetweenThem) {
  auto groups = comm::MakeGroups("gloo", 2);
  comm::RunRanks(2, [&](int rank) {
    const LinkFields link = DescribeLink(*groups[static_cast<size_t>(rank)]);
    EXPECT_EQ(link.StringOr("kind", ""), "loopback");
    EXPECT_EQ(link.StringOr("interface", ""), "lo");
  });
}

TEST(DescribeLinkTest, ThreadsAndASingleRankHaveNone) {
  auto groups = comm::MakeGroups("local", 2);
  EXPECT_EQ(DescribeLink(*groups[0]).StringOr("kind", ""), "none");
  auto alone = comm::MakeGroups("gloo", 1);
  EXPECT_EQ(DescribeLink(*alone[0]).StringOr("kind", ""), "none");
}

}  // namespace
}  // namespace gradsync::bench
