#include "bench/launch/link.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/launch/run_program.h"
#include "comm/rank_threads.h"

namespace gradsync::bench {
namespace {

std::string Interface(const std::string& type, const std::string& index, const std::string& link,
                      const std::string& uevent) {
  const std::string directory = FreshDirectory();
  std::ofstream(directory + "/type") << type << "\n";
  std::ofstream(directory + "/ifindex") << index << "\n";
  std::ofstream(directory + "/iflink") << link << "\n";
  std::ofstream(directory + "/uevent") << uevent << "\n";
  return directory;
}

TEST(InterfaceKindTest, IsReadFromTheSystemsFiles) {
  EXPECT_EQ(InterfaceKind(Interface("772", "1", "1", "INTERFACE=lo")), "loopback");
  EXPECT_EQ(InterfaceKind(Interface("1", "2", "2", "INTERFACE=eth0")), "ethernet");
  EXPECT_EQ(InterfaceKind(Interface("1", "7", "8", "INTERFACE=veth0")), "veth");
  EXPECT_EQ(InterfaceKind(Interface("1", "7", "2", "DEVTYPE=vlan\nINTERFACE=vlan7")), "ethernet");
  EXPECT_EQ(InterfaceKind(Interface("1", "7", "2", "DEVTYPE=wlan")), "ethernet");
  EXPECT_EQ(InterfaceKind(Interface("32", "7", "7", "")), "infiniband");
  EXPECT_EQ(InterfaceKind(Interface("65534", "7", "7", "")), "other");
  EXPECT_EQ(InterfaceKind("/nonexistent"), "other");
}

TEST(DescribeLinkTest, RanksOfOneHostHaveLoopbackBetweenThemAndMeasureIt) {
  auto groups = comm::MakeGroups("gloo", 2);
  comm::RunRanks(2, [&](int rank) {
    comm::World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = 2;
    const Fields link = DescribeLink(*groups[static_cast<size_t>(rank)], model::CpuDevice(), world, "");
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
  comm::World world;
  world.size = world.local_size = 2;
  EXPECT_EQ(DescribeLink(*groups[0], model::CpuDevice(), world, "").StringOr("kind", ""), "none");
  auto alone = comm::MakeGroups("gloo", 1);
  EXPECT_EQ(DescribeLink(*alone[0], model::CpuDevice(), comm::World{}, "").StringOr("kind", ""), "none");
}

}  // namespace
}  // namespace gradsync::bench
