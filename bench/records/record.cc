#include "bench/records/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

#include "model/error.h"

namespace gradsync::bench {
namespace {

std::tm UtcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return utc;
}

std::string Format(const std::tm& time, const char* format) {
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &time));
}

}  // namespace

void Fields::Set(std::string_view name, Value value) {
  for (auto& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(name, std::move(value));
}

const Value* Fields::Find(std::string_view name) const {
  for (const auto& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

bool Fields::BoolOr(std::string_view name, bool fallback) const {
  const Value* value = Find(name);
  return value != nullptr && std::holds_alternative<bool>(*value) ? std::get<bool>(*value) : fallback;
}

int64_t Fields::IntOr(std::string_view name, int64_t fallback) const {
  const Value* value = Find(name);
  return value != nullptr && std::holds_alternative<int64_t>(*value) ? std::get<int64_t>(*value) : fallback;
}

double Fields::DoubleOr(std::string_view name, double fallback) const {
  const Value* value = Find(name);
  if (value == nullptr) return fallback;
  if (std::holds_alternative<int64_t>(*value)) return static_cast<double>(std::get<int64_t>(*value));
  return std::holds_alternative<double>(*value) ? std::get<double>(*value) : fallback;
}

std::string Fields::StringOr(std::string_view name, std::string_view fallback) const {
  const Value* value = Find(name);
  const bool found = value != nullptr && std::holds_alternative<std::string>(*value);
  return found ? std::get<std::string>(*value) : std::string(fallback);
}

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
  // Devices cannot be synced, and need not be.
  if (fsync(file_) == 0 || errno == EINVAL || errno == EROFS) return;
  throw std::runtime_error(Join("cannot flush ", path_, ": ", std::strerror(errno)));
}

std::string NewRunId() {
  char random[8];
  std::snprintf(random, sizeof random, "-%04x", std::random_device()() & 0xffffU);
  return Format(UtcNow(), "%Y%m%dT%H%M%S") + random;
}

std::string NowUtc() { return Format(UtcNow(), "%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace gradsync::bench
