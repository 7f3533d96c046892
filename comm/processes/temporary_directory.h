#pragma once

#include <optional>
#include <string>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A TemporaryDirectory is a new directory under TMPDIR (default /tmp) that only this user can read. The
// destructor removes the directory with its contents. If this process ends without running the destructor (it
// was killed), a shell process, which the constructor starts for this purpose, removes the directory.
class TemporaryDirectory {
 public:
  // The constructor throws InvalidInput if it cannot make the directory, and std::system_error if it cannot
  // start the shell process that removes the directory.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryDirectory(std::string path);

  const std::string path_;
  FileDescriptor lifeline_;  // a descriptor that is closed when this process ends
  std::optional<ChildProcess> remover_;
};

}  // namespace gradsync::comm
