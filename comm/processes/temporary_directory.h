#pragma once

#include <optional>
#include <string>

#include "comm/processes/child_process.h"
#include "comm/processes/file_descriptor.h"

namespace gradsync::comm {

// A new directory under TMPDIR, for this user only. The destructor removes it with its contents. If this
// process ends in any other way, a shell that waits for its end removes it.
class TemporaryDirectory {
 public:
  // Throws std::system_error.
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Returns the path of a file in the directory.
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit TemporaryDirectory(std::string path);

  const std::string path_;
  FileDescriptor lifeline_;  // a descriptor that is closed when this process ends
  std::optional<ChildProcess> remover_;
};

}  // namespace gradsync::comm
