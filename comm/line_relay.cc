#include "comm/line_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace gradsync::comm {
namespace {

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

LineRelay::LineRelay(int source, std::string prefix, int target, std::chrono::milliseconds hold)
    : source_(source),
      prefix_(std::move(prefix)),
      target_(target),
      release_(std::chrono::steady_clock::now() + hold) {
  fcntl(source_, F_SETFL, fcntl(source_, F_GETFL) | O_NONBLOCK);
}

LineRelay::LineRelay(LineRelay&& other) noexcept
    : source_(std::exchange(other.source_, -1)),
      prefix_(other.prefix_),
      target_(other.target_),
      release_(other.release_),
      kept_(other.kept_),
      pending_(std::move(other.pending_)) {}

LineRelay::~LineRelay() {
  if (source_ >= 0) close(source_);
}

void LineRelay::Read() {
  if (kept_) return;
  std::array<char, 4096> bytes;
  while (source_ >= 0) {
    const ssize_t count = read(source_, bytes.data(), bytes.size());
    if (count > 0) {
      pending_.append(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0) {
      close(std::exchange(source_, -1));
    } else if (errno != EINTR) {
      break;
    }
  }
  if (std::chrono::steady_clock::now() >= release_) Pass(/*also_unfinished=*/false);
}

void LineRelay::Keep() {
  kept_ = true;
  if (source_ >= 0) close(std::exchange(source_, -1));
}

void LineRelay::Close() {
  kept_ = false;
  Read();
  Pass(/*also_unfinished=*/true);
  if (source_ >= 0) close(std::exchange(source_, -1));
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
  WriteAll(target_, lines);
}

}  // namespace gradsync::comm
