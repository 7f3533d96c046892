#include "bench/launch/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <string>

namespace gradsync::bench {
namespace {

TEST(ProgressLineTest, SaysWhatHowFarAndHowLong) {
  EXPECT_EQ(ProgressLine("batch 2", 0, 70, 0, 0, 1), "batch 2: 0/70");
  EXPECT_EQ(ProgressLine("batch 2", 10, 70, 0, 5'000'000'000, 1), "batch 2: 10/70, 30s left");
  EXPECT_EQ(ProgressLine("batch 2", 10, 70, 0, 11'000'000'000, 1), "batch 2: 10/70, 1m6s left");
  EXPECT_EQ(ProgressLine("batch 2", 70, 70, 0, 5'000'000'000, 1), "batch 2: 70/70, 0 left");
}

TEST(ProgressLineTest, CountsTheTimeWhereStepsHaveNoEnd) {
  EXPECT_EQ(ProgressLine("batch 2", 0, 0, 60'000'000'000, 0, 1), "batch 2: 0");
  EXPECT_EQ(ProgressLine("batch 2", 90, 0, 60'000'000'000, 20'000'000'000, 1), "batch 2: 90, 40s left");
  // What is as long as it has to be may take longer.
  EXPECT_EQ(ProgressLine("batch 2", 90, 0, 60'000'000'000, 70'000'000'000, 1), "batch 2: 90, 0 left");
}

TEST(ProgressLineTest, CountsLaterLaunches) {
  EXPECT_EQ(ProgressLine("batch 2", 10, 70, 0, 5'000'000'000, 2), "batch 2: 10/70, 1m5s left");
  EXPECT_EQ(ProgressLine("batch 2", 90, 0, 60'000'000'000, 20'000'000'000, 2), "batch 2: 90, 1m40s left");
  EXPECT_EQ(ProgressLine("batch 2", 90, 0, 60'000'000'000, 70'000'000'000, 2), "batch 2: 90, 1m left");
}

TEST(ProgressTest, WritesNothingIntoAFileForHalfAMinute) {
  ::testing::internal::CaptureStderr();
  {
    Progress progress(2, 0, 1, true);
    progress.Step("a");
    progress.Step("b");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressTest, ThenWritesALineOfItsOwnIntoAFile) {
  ::testing::internal::CaptureStderr();
  {
    Progress visible(2, 0, 1, true, /*line_every_ns=*/0), other_rank(2, 0, 1, false, /*line_every_ns=*/0);
    for (const char* const what : {"batch 1", "batch 2"}) {
      visible.Step(what);
      other_rank.Step(what);
    }
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "batch 1: 1/2, 0 left\nbatch 2: 2/2, 0 left\n");
}

// Twice within an instant it shows the first step alone, and clears the line when it is done.
TEST(ProgressTest, RewritesOneLineOnATerminal) {
  int terminal = -1, screen = -1;
  ASSERT_EQ(openpty(&screen, &terminal, nullptr, nullptr, nullptr), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  {
    Progress progress(2, 0, 1, true);
    progress.Step("a");
    progress.Step("b");
  }
  dup2(saved, STDERR_FILENO);
  for (const int file : {saved, terminal}) close(file);
  // A read may return a part of what was written; it fails when all is read.
  std::string text;
  char part[256];
  for (ssize_t count = 0; (count = read(screen, part, sizeof(part))) > 0;)
    text.append(part, static_cast<size_t>(count));
  close(screen);
  EXPECT_EQ(text, "\r\033[K\033[?7la: 1/2, 0 left\033[?7h\r\033[K");
}

}  // namespace
}  // namespace gradsync::bench
