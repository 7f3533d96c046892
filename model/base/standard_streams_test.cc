#include "model/base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "model/base/exit_status.h"

namespace gradsync {
namespace {

// Ends the process with `status` as WithWrittenOutput returns it, after a line on such a stdout.
void EndWith(const char* path, int status, bool flush_first) {
  if (std::freopen(path, "w", stdout) == nullptr) std::_Exit(99);
  std::printf("an answer\n");
  if (flush_first) std::fflush(stdout);
  std::_Exit(WithWrittenOutput(status));
}

TEST(StandardStreamsDeathTest, AnAnswerThatCannotBeWrittenIsAFailure) {
  EXPECT_EXIT(EndWith("/dev/full", kDone, false), testing::ExitedWithCode(kFailed),
              "^cannot write to stdout: No space left on device\n$");
  EXPECT_EXIT(EndWith("/dev/full", kDone, true), testing::ExitedWithCode(kFailed), "^cannot write to stdout");
  EXPECT_EXIT(EndWith("/dev/null", kDone, false), testing::ExitedWithCode(kDone), "^$");
}

TEST(StandardStreamsDeathTest, OtherFailuresKeepTheirStatus) {
  EXPECT_EXIT(EndWith("/dev/full", kBadArguments, false), testing::ExitedWithCode(kBadArguments), "^$");
}

// Opens a file after stdin and stdout were closed, and ends with its descriptor.
void EndWithNextDescriptor() {
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  KeepStandardStreams();
  if (write(STDOUT_FILENO, "a", 1) != -1) std::_Exit(99);
  std::_Exit(open("/dev/null", O_WRONLY));
}

TEST(StandardStreamsDeathTest, NoFileBecomesAStandardStream) {
  EXPECT_EXIT(
      EndWithNextDescriptor(),
      [](int status) { return WEXITSTATUS(status) > 2 && WEXITSTATUS(status) != 99; }, "");
}

}  // namespace
}  // namespace gradsync
