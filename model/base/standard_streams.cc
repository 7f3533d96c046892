#include "model/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "model/base/exit_status.h"

namespace gradsync {

void KeepStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest descriptor that is free, which is this one. It is not opened for writing.
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", O_RDONLY);
  }
}

int WithWrittenOutput(int status) {
  errno = 0;
  const bool is_flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (status != kDone || (is_flushed && std::ferror(stdout) == 0)) return status;
  // If an earlier write failed, its reason is no longer known.
  std::fprintf(stderr, "cannot write to stdout%s%s\n", error == 0 ? "" : ": ",
               error == 0 ? "" : std::strerror(error));
  return kFailed;
}

}  // namespace gradsync
