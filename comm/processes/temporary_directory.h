#pragma once

#include <optional>
#include <string>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A new directory under TMPDIR that only this user can read. The destructor removes it with its contents. If
// this process ends without the destructor (killed), a waiting shell process removes the directory.
class TemporaryDirectory {
 public:
  // Throws std::system_error.
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
