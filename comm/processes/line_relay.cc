#include "comm/processes/line_relay.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradsync::comm {

PatientWriter::PatientWriter(int fd) {
  struct stat status {};
  // Opened anew, because O_NONBLOCK would hold for all processes that share the file. A regular file never
  // blocks.
  if (fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode))) {
    const std::string path = absl::StrCat("/proc/self/fd/", fd);
    file_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
  if (!file_.valid()) file_ = FileDescriptor(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

void PatientWriter::Write(std::string_view text) {
  pending_ += text;
  Flush();
}

void PatientWriter::Flush() {
  while (!pending_.empty()) {
    const ssize_t written = write(file_.get(), pending_.data(), pending_.size());
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0 && errno == EINTR) continue;
    // What cannot be written at all is as good as written.
    pending_.erase(0, written < 0 ? pending_.size() : static_cast<size_t>(written));
  }
}

LineRelay::LineRelay(FileDescriptor source, std::string prefix, PatientWriter& target,
                     std::chrono::milliseconds hold)
    : source_(std::move(source)),
      prefix_(std::move(prefix)),
      target_(&target),
      release_(std::chrono::steady_clock::now() + hold) {
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

void LineRelay::Read() {
  if (kept_) return;
  // As much as a pipe holds: one rank that writes without end must not delay the others.
  constexpr int kMaxReads = 16;
  std::array<char, 4096> bytes;
  for (int i = 0; i < kMaxReads && open(); ++i) {
    const ssize_t count = read(fd(), bytes.data(), bytes.size());
    if (count > 0) {
      pending_.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0) {
      source_.Close();
    } else if (errno != EINTR) {
      break;
    }
  }
  if (std::chrono::steady_clock::now() >= release_) Pass(/*also_unfinished=*/false);
}

void LineRelay::Keep() {
  kept_ = true;
  source_.Close();
}

void LineRelay::Close() {
  kept_ = false;
  Read();
  Pass(/*also_unfinished=*/true);
  source_.Close();
}

void LineRelay::Pass(bool also_unfinished) {
  if (also_unfinished && !pending_.empty() && pending_.back() != '\n') pending_ += '\n';
  std::string lines;
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines += prefix_;
    lines += std::string_view(pending_).substr(begin, end + 1 - begin);
  }
  pending_.erase(0, begin);
  target_->Write(lines);
}

}  // namespace gradsync::comm
