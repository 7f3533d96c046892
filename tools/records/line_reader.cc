#include "tools/records/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace gradsync::tools {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

}  // namespace

InputFile::InputFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (file_ < 0) throw std::runtime_error(std::strerror(errno));
  struct stat status {};
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file_);
    throw std::runtime_error("not a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { close(file_); }

size_t InputFile::Read(uint64_t offset, char* data, size_t bytes) const {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(file_, data + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error(std::strerror(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

LineReader::LineReader(const InputFile& file, uint64_t offset) : file_(file), buffer_(kBlockBytes) {
  if (offset == 0) return;
  file_offset_ = offset - 1;
  Next();  // the rest of a line; empty if a line begins at `offset`
  number_ = 0;
}

bool LineReader::Refill() {
  const size_t held = end_ - begin_;
  std::memmove(buffer_.data(), buffer_.data() + begin_, held);
  begin_ = 0;
  end_ = held;
  if (buffer_.size() - held < kBlockBytes) buffer_.resize(held + kBlockBytes);
  const size_t n = file_.Read(file_offset_, buffer_.data() + end_, kBlockBytes);
  file_offset_ += n;
  end_ += n;
  return n > 0;
}

bool LineReader::Next() {
  size_t searched = 0;  // bytes of the line that are known to hold no newline
  offset_ = file_offset_ - (end_ - begin_);
  too_long_ = false;
  for (;;) {
    const char* start = buffer_.data() + begin_;
    const void* newline = std::memchr(start + searched, '\n', end_ - begin_ - searched);
    if (newline != nullptr) {
      const size_t length = static_cast<size_t>(static_cast<const char*>(newline) - start);
      line_ = too_long_ ? std::string_view() : std::string_view(start, length);
      begin_ += length + 1;
      break;
    }
    searched = end_ - begin_;
    if (searched > kMaxLineBytes) {
      too_long_ = true;
      begin_ = end_;
      searched = 0;
    }
    if (!Refill()) {
      if (begin_ == end_ && !too_long_) return false;
      line_ = too_long_ ? std::string_view() : std::string_view(buffer_.data() + begin_, end_ - begin_);
      begin_ = end_;
      break;
    }
  }
  if (!too_long_ && line_.size() > kMaxLineBytes) {
    too_long_ = true;
    line_ = {};
  }
  ++number_;
  return true;
}

}  // namespace gradsync::tools
