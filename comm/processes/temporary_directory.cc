#include "comm/processes/temporary_directory.h"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace gradsync::comm {
namespace {

std::string MakeDirectory() {
  const char* const base = std::getenv("TMPDIR");
  std::string path = Join(base == nullptr || *base == '\0' ? "/tmp" : base, "/gradsync.XXXXXX");
  const bool is_made = mkdtemp(path.data()) != nullptr;
  const std::string reason = std::strerror(errno);
  Require(is_made, "TMPDIR=", base == nullptr ? "" : base, ": cannot make ", path, ": ", reason,
          "; expected a directory that can be written to");
  return path;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() : TemporaryDirectory(MakeDirectory()) {
  // The remover reads until no process has the other end open, because such a process may still create a
  // file. The remover is in its own group, because a signal that ends this process may be sent to its whole
  // group.
  constexpr char kRemover[] =
      "read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- \"$0\" && exit; sleep 0.1; done";
  Pipe pipe = MakePipe();
  const FileDescriptor nowhere = OpenFile("/dev/null", O_WRONLY);
  remover_.emplace(std::vector<std::string>{"/bin/sh", "-c", kRemover, path_},
                   ChildOptions{.stdin_fd = pipe.read_end.get(),
                                .stdout_fd = nowhere.get(),
                                .stderr_fd = nowhere.get(),
                                .own_group = true,
                                .dies_with_parent = false});
  lifeline_ = std::move(pipe.write_end);
}

TemporaryDirectory::TemporaryDirectory(std::string path) : path_(std::move(path)) {}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gradsync::comm
