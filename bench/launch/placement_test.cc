#include "bench/launch/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "bench/records/host.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PlacementTest, RanksShareNoCpu) {
  const std::vector<int> cpus = {0, 1, 2, 3, 8, 9, 10};
  const Placement first = PlanPlacement(cpus, 0, 2, 2);
  EXPECT_THAT(first.compute_cpus, ElementsAre(0, 1));
  EXPECT_THAT(first.communication_cpus, ElementsAre(8, 10));
  const Placement second = PlanPlacement(cpus, 1, 2, 2);
  EXPECT_THAT(second.compute_cpus, ElementsAre(2, 3));
  EXPECT_THAT(second.communication_cpus, ElementsAre(9));
}

TEST(PlacementTest, CommunicationStaysUnpinnedWithoutSpareCpus) {
  const std::vector<int> cpus = {0, 1, 2};
  EXPECT_THAT(PlanPlacement(cpus, 1, 2, 1).compute_cpus, ElementsAre(1));
  EXPECT_THAT(PlanPlacement(cpus, 1, 2, 1).communication_cpus, IsEmpty());
}

TEST(PlacementTest, TooFewCpusIsOneClearLine) {
  const std::vector<int> cpus = {0, 1, 2};
  try {
    PlanPlacement(cpus, 0, 2, 2);
    FAIL() << "accepted";
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(error.what(), "--placement=pin: 2 ranks of 2 threads need 4 CPUs, this process may use 3");
  }
}

TEST(PlacementTest, ThreadsInheritTheirCpus) {
  const int last = AllowedCpus().back();
  std::thread([last] {
    RunOnCpus(std::vector<int>{last});
    std::thread([last] { EXPECT_THAT(AllowedCpus(), ElementsAre(last)); }).join();
  }).join();
}

}  // namespace
}  // namespace gradsync::bench
