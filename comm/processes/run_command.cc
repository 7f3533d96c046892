#include "comm/processes/run_command.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/ascii.h"
#include "model/base/error.h"

namespace gradsync::comm {

CapturedOutput::CapturedOutput() : file_(memfd_create("output", MFD_CLOEXEC)) {
  if (!file_.valid()) throw std::system_error(errno, std::generic_category(), "memfd_create");
}

std::string CapturedOutput::text() const {
  // The program writes at the descriptor's position, so reads must not move it.
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = pread(fd(), buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  return text;
}

std::string CapturedOutput::last_line() const {
  const std::string written = text();
  const absl::string_view trimmed = absl::StripTrailingAsciiWhitespace(written);
  return std::string(trimmed.substr(trimmed.rfind('\n') + 1));
}

CommandResult RunCommand(const std::vector<std::string>& command, std::chrono::milliseconds timeout,
                         EnvironmentChanges environment) {
  const CapturedOutput output;
  const CapturedOutput messages;
  const FileDescriptor nothing = OpenFile("/dev/null", O_RDONLY);
  ChildProcess child(command, {.environment = std::move(environment),
                               .stdin_fd = nothing.get(),
                               .stdout_fd = output.fd(),
                               .stderr_fd = messages.fd(),
                               .own_group = true});
  CommandResult result;
  result.end = child.Wait(ChildProcess::Clock::now() + timeout);
  if (!result.end.has_value()) {
    child.Kill();
    result.message = Join("did not end within ", timeout.count(), " ms");
  } else if (!result.ok()) {
    result.message = messages.last_line();
    if (result.message.empty()) result.message = ToString(*result.end);
  }
  result.output = output.text();
  return result;
}

}  // namespace gradsync::comm
