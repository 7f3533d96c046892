#include "tools/render/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "model/error.h"

namespace gradsync::tools {

void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code error;
  // What is no file to replace, such as /dev/stdout, is written as it is.
  const bool is_special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string beside = is_special ? path : Join(path, ".", ::getpid(), ".tmp");
  std::ofstream file(beside, std::ios::binary);
  if (file) write(file);
  file.close();
  if (file && (is_special || std::rename(beside.c_str(), path.c_str()) == 0)) return;
  const std::string reason = std::strerror(errno);
  if (!is_special) std::remove(beside.c_str());
  throw std::runtime_error(Join(path, ": cannot write it: ", reason));
}

}  // namespace gradsync::tools
