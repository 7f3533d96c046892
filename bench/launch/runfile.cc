#include "bench/launch/runfile.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "model/base/error.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace gradsync::bench {

std::string RunfilePath(const char* argv0, const std::string& file, bool executable) {
  using bazel::tools::cpp::runfiles::Runfiles;
  std::string error;
  const std::unique_ptr<Runfiles> runfiles(Runfiles::Create(argv0, &error));
  Require(runfiles != nullptr, "cannot find ", file, ": ", error);
  std::string path = runfiles->Rlocation("gradsync/" + file);
  Require(access(path.c_str(), executable ? X_OK : R_OK) == 0, "cannot ", executable ? "run " : "read ", path,
          ": ", std::strerror(errno));
  return path;
}

}  // namespace gradsync::bench
