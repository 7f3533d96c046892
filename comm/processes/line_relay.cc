#include "comm/processes/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace gradsync::comm {

LineRelay::LineRelay(FileDescriptor source, std::string prefix, BackgroundWriter& target,
                     std::chrono::milliseconds hold)
    : source_(std::move(source)),
      prefix_(std::move(prefix)),
      target_(&target),
      release_(std::chrono::steady_clock::now() + hold) {
  fcntl(fd(), F_SETFL, fcntl(fd(), F_GETFL) | O_NONBLOCK);
}

void LineRelay::Read() {
  if (kept_) return;
  // As much as a pipe holds: one rank that talks without end must not keep the others waiting.
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
