#include "bench/timing/step_wait.h"

#include <gtest/gtest.h>

#include <vector>

namespace gradsync::bench {
namespace {

TEST(StepWaitTest, CountedWaitsAreTakenOutOfATime) {
  const std::vector<StepWait> waits = {{.begin_ns = 10, .end_ns = 14, .is_counted = false},
                                       {.begin_ns = 20, .end_ns = 25},
                                       {.begin_ns = 30, .end_ns = 32}};
  EXPECT_EQ(WithoutWaitsNs(0, 100, waits), 93);
  EXPECT_EQ(WithoutWaitsNs(20, 25, waits), 0);
  EXPECT_EQ(WithoutWaitsNs(25, 30, waits), 5);
  EXPECT_EQ(WithoutWaitsNs(0, 20, waits), 20);
  EXPECT_EQ(WithoutWaitsNs(22, 31, waits), 5) << "only the parts of waits that are in it";
  EXPECT_EQ(WithoutWaitsNs(0, 100, {}), 100);
}

}  // namespace
}  // namespace gradsync::bench
