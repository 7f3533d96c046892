#ifndef GRADSYNC_TOOLS_RECORDS_LINE_READER_H_
#define GRADSYNC_TOOLS_RECORDS_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::tools {

// A file open for reading.
class InputFile {
 public:
  // Throws std::runtime_error with the system's reason, without the path, if `path` is no file that can be
  // read.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Up to `bytes` from `offset`; fewer only at the end of the file. Throws std::runtime_error.
  size_t Read(uint64_t offset, char* data, size_t bytes) const;

  uint64_t size() const { return size_; }  // in bytes, when it was opened

 private:
  int file_ = -1;
  uint64_t size_ = 0;
};

// The lines of a file, one after the other, in memory of about one block or the longest line.
class LineReader {
 public:
  // Longer lines are not records; a large file without newlines must not fill the memory.
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // Begins with the first line that begins at `offset` or behind it. Throws std::runtime_error when reading
  // fails. Keeps `file`.
  explicit LineReader(const InputFile& file, uint64_t offset = 0);

  // False at the end of the file. Throws std::runtime_error when reading fails.
  bool Next();

  // The line that Next found, without its newline; valid until the next call. Empty if too_long().
  std::string_view line() const { return line_; }
  int64_t number() const { return number_; }  // from 1, of those that were read here
  uint64_t offset() const { return offset_; }
  bool too_long() const { return too_long_; }

 private:
  // Moves the unfinished line to the front and reads on behind it. False at the end of the file.
  bool Refill();

  const InputFile& file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not yet handed out, in buffer_
  size_t end_ = 0;
  uint64_t file_offset_ = 0;  // of buffer_[end_]

  std::string_view line_;
  int64_t number_ = 0;
  uint64_t offset_ = 0;
  bool too_long_ = false;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_LINE_READER_H_
