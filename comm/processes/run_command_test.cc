#include "comm/processes/run_command.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <system_error>

namespace gradsync::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

CommandResult RunShell(const std::string& script, milliseconds timeout = minutes(1)) {
  return RunCommand({"sh", "-c", script}, timeout);
}

TEST(RunCommandTest, ReturnsAllThatWasWritten) {
  const CommandResult result = RunShell("echo one; echo two; echo aside >&2");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.output, "one\ntwo\n");
  EXPECT_EQ(result.message, "");
}

TEST(RunCommandTest, MuchOutputWaitsForNobody) {
  EXPECT_EQ(RunShell("head -c 1000000 /dev/zero").output.size(), 1'000'000u);
}

TEST(RunCommandTest, HasNothingToRead) { EXPECT_EQ(RunShell("cat; echo end").output, "end\n"); }

TEST(RunCommandTest, SaysWhyItFailed) {
  const CommandResult result = RunShell("echo first >&2; printf 'the cause \n\n' >&2; exit 3");
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.end->exit_status(), 3);
  EXPECT_EQ(result.message, "the cause");
  EXPECT_EQ(RunShell("exit 3").message, "exited with status 3");
  EXPECT_THROW(RunCommand({"no-such-program"}, minutes(1)), std::system_error);
}

TEST(RunCommandTest, WhatTakesTooLongIsKilled) {
  const CommandResult result = RunShell("sleep 600", milliseconds(100));
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.end.has_value());
  EXPECT_EQ(result.message, "did not end within 100 ms");
}

}  // namespace
}  // namespace gradsync::comm
