#include "bench/launch/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "comm/processes/run_command.h"
#include "comm/processes/temporary_directory.h"
#include "model/base/error.h"
#include "model/base/exit_status.h"

namespace gradsync::bench {
namespace {

using ::testing::HasSubstr;

// By the path that Bazel gives to tests.
const char* Self() {
  static const std::string self = ::testing::internal::GetArgvs().front();
  return self.c_str();
}

// They find no records, which is no bad argument: the tools know all of these flags.
TEST(ToolsTest, TheToolsTakeTheirCommandLines) {
  const comm::TemporaryDirectory empty;
  const std::string file = empty.path() + "/made.json";
  for (const Command& command :
       {AnswerCommand(Self(), empty.path()), AnswerCommand(Self(), empty.path(), "monday"),
        TablesCommand(Self(), empty.path(), "json", file), PrecisionCommand(Self(), empty.path(), 0.02)}) {
    const comm::CommandResult result = comm::RunCommand(command, std::chrono::minutes(1));
    ASSERT_TRUE(result.end.has_value());
    EXPECT_EQ(result.end->exit_status(), kFailed) << result.message;
  }
  EXPECT_EQ(AnswerCommand(Self(), empty.path(), "monday").back(), "--run=monday");
  EXPECT_EQ(PrecisionCommand(Self(), empty.path(), 0.02).back(), "--precision=2%");
}

TEST(ToolsTest, PeopleTypeThemInTheWorkspace) {
  EXPECT_EQ(TypedAnswer("/a b"), "./bazelw run //tools:summarize -- '/a b' --format=screen");
  EXPECT_THAT(TypedNext("/a b"), HasSubstr("//tools:report -- '/a b' --out=report.html,"));
}

}  // namespace
}  // namespace gradsync::bench
