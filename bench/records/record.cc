#include "bench/records/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

// Returns the value if it exists and has this type.
template <class T>
T Get(const Value* value, T fallback) {
  const T* const held = value == nullptr ? nullptr : std::get_if<T>(value);
  return held == nullptr ? std::move(fallback) : *held;
}

std::string UtcNow(const char* format) { return absl::FormatTime(format, absl::Now(), absl::UTCTimeZone()); }

}  // namespace

void Fields::Set(std::string_view name, Value value) {
  const auto entry = std::ranges::find(entries_, name, &std::pair<std::string, Value>::first);
  if (entry == entries_.end()) {
    entries_.emplace_back(name, std::move(value));
  } else {
    entry->second = std::move(value);
  }
}

const Value* Fields::Find(std::string_view name) const {
  const auto entry = std::ranges::find(entries_, name, &std::pair<std::string, Value>::first);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool Fields::BoolOr(std::string_view name, bool fallback) const { return Get(Find(name), fallback); }

int64_t Fields::IntOr(std::string_view name, int64_t fallback) const { return Get(Find(name), fallback); }

double Fields::DoubleOr(std::string_view name, double fallback) const {
  const Value* const value = Find(name);
  const bool is_int = value != nullptr && std::holds_alternative<int64_t>(*value);
  return is_int ? static_cast<double>(std::get<int64_t>(*value)) : Get(value, fallback);
}

std::string Fields::StringOr(std::string_view name, std::string_view fallback) const {
  return Get(Find(name), std::string(fallback));
}

std::string MachineOf(const Record& record) { return record.facts.StringOr("boot", record.provenance.host); }

RecordWriter::RecordWriter(const std::string& dir, std::string_view experiment, std::string_view run_id,
                           int64_t rank)
    : path_(Join(dir, "/", experiment, ".", run_id, ".rank", rank, ".jsonl")) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  Require(!error, "cannot create directory ", dir, ": ", error.message());
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  Require(file_ >= 0, "cannot open ", path_, ": ", std::strerror(errno));
  struct stat status {};
  Require(fstat(file_, &status) != 0 || status.st_size == 0, path_, ": there is such a file already");
}

RecordWriter::~RecordWriter() { close(file_); }

int64_t RecordWriter::Begin(const Record& record) {
  Record numbered = record;
  numbered.number = num_records_++;
  unwritten_ += ToJsonLine(numbered) + "\n";
  return numbered.number;
}

void RecordWriter::Continue(int64_t of, const Record& more) {
  unwritten_ += ToContinuationLine(of, more) + "\n";
}

void RecordWriter::Write() {
  struct stat status {};
  if (fstat(file_, &status) == 0 && status.st_nlink == 0) {
    throw std::runtime_error(Join("cannot write ", path_, ": the file was removed"));
  }
  std::string_view left = unwritten_;
  while (!left.empty()) {
    const ssize_t n = write(file_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::runtime_error(Join("cannot write ", path_, ": ", std::strerror(errno)));
    left.remove_prefix(static_cast<size_t>(n));
  }
  unwritten_.clear();
}

void RecordWriter::WriteToDisk() {
  Write();
  // Devices cannot be synced, and do not need it.
  if (fsync(file_) == 0 || errno == EINVAL || errno == EROFS) return;
  throw std::runtime_error(Join("cannot flush ", path_, ": ", std::strerror(errno)));
}

std::string NewRunId() {
  return absl::StrFormat("%s-%04x", UtcNow("%Y%m%dT%H%M%S"), std::random_device()() & 0xffffU);
}

std::string NowUtc() { return UtcNow("%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace gradsync::bench
