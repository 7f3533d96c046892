#include "bench/launch/progress.h"

#include <gtest/gtest.h>

namespace gradsync::bench {
namespace {

TEST(ProgressLineTest, SaysWhatHowFarAndHowLong) {
  EXPECT_EQ(ProgressLine("batch 2", 0, 70, 0), "batch 2: 0/70");
  EXPECT_EQ(ProgressLine("batch 2", 10, 70, 5'000'000'000), "batch 2: 10/70, 30s left");
  EXPECT_EQ(ProgressLine("batch 2", 10, 70, 11'000'000'000), "batch 2: 10/70, 1m6s left");
  EXPECT_EQ(ProgressLine("batch 2", 70, 70, 5'000'000'000), "batch 2: 70/70, 0 left");
}

// Unless it takes longer than half a minute.
TEST(ProgressTest, WritesNothingIntoAFile) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(2, true);
    progress.Step("a");
    progress.Step("b");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace gradsync::bench
