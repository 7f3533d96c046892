#include "tools/records/index.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <filesystem>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "model/error.h"
#include "tools/records/in_order.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kMaxOpenFiles = 64;
constexpr uint64_t kPieceBytes = uint64_t{32} << 20;
constexpr size_t kReadAheadBytes = size_t{64} << 10;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

std::vector<std::string> RecordFilesIn(const std::string& dir, Problems* problems) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(dir, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path().string());
  }
  if (error) problems->AddFile(dir, "cannot read: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

// A table of the numbers, by hash: a standard map would take some hundred bytes a record.
std::vector<uint32_t> RecordIndex::FirstWithSame(uint64_t RecordKeys::*hash) const {
  std::vector<uint32_t> first(keys_.size());
  std::vector<uint32_t> slots(std::bit_ceil(2 * keys_.size() + 1), kNone);
  const size_t mask = slots.size() - 1;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const uint64_t wanted = keys_[i].*hash;
    size_t slot = wanted & mask;  // a hash already
    while (slots[slot] != kNone && keys_[slots[slot]].*hash != wanted) slot = (slot + 1) & mask;
    if (slots[slot] == kNone) slots[slot] = i;
    first[i] = slots[slot];
  }
  return first;
}

// One kind of number at a time, because each takes memory for all records.
void RecordIndex::NumberEntries() {
  const auto number_by = [&](uint64_t RecordKeys::*hash, uint32_t Entry::*number) {
    const std::vector<uint32_t> first = FirstWithSame(hash);
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i].*number = first[i];
  };
  number_by(&RecordKeys::run, &Entry::run);
  number_by(&RecordKeys::cell, &Entry::cell);
  number_by(&RecordKeys::measurement, &Entry::measurement);
  keys_ = {};
}

void RecordIndex::Add(const std::string& path) {
  std::error_code error;
  Require(std::filesystem::exists(path, error), path, ": no such file or directory");
  std::vector<std::string> files = {path};
  if (std::filesystem::is_directory(path, error)) files = RecordFilesIn(path, problems_);
  for (std::string& file : files) {
    const std::string canonical = std::filesystem::weakly_canonical(file, error).string();
    if (seen_files_.insert(canonical).second) files_.push_back(std::move(file));
  }
}

std::vector<RecordIndex::Piece> RecordIndex::Pieces() {
  std::vector<Piece> pieces;
  for (uint32_t number = 0; number < files_.size(); ++number) {
    try {
      const uint64_t size = InputFile(files_[number]).size();
      if (size == 0) problems_->AddFile(files_[number], "empty");
      for (uint64_t begin = 0; begin < size; begin += kPieceBytes) {
        pieces.push_back({number, begin, std::min(begin + kPieceBytes, size)});
      }
    } catch (const std::exception& failure) {
      problems_->AddFile(files_[number], Join("cannot read: ", failure.what()));
    }
  }
  return pieces;
}

void RecordIndex::ScanFiles() {
  const std::vector<Piece> pieces = Pieces();
  std::vector<RecordScanner> scanners(NumSlots());
  TextPool experiments;
  TextPool strategies;
  int64_t lines_before = 0;  // of the file, in the pieces before this one
  const auto scan = [&](size_t piece, size_t slot) {
    const auto& [file, begin, end] = pieces[piece];
    scanners[slot].Scan(files_[file], begin, end);
  };
  const auto take = [&](size_t piece, size_t slot) {
    const auto& [file, begin, end] = pieces[piece];
    const RecordScanner& scanner = scanners[slot];
    if (begin == 0) lines_before = 0;
    for (const auto& [line, reason] : scanner.bad_lines()) {
      problems_->AddLine(files_[file], lines_before + line, reason);
    }
    if (!scanner.failure().empty()) problems_->AddFile(files_[file], "cannot read: " + scanner.failure());
    for (const RecordScanner::Found& found : scanner.found()) {
      keys_.push_back(found.keys);
      entries_.push_back({
          .rank = found.rank,
          .experiment = experiments.Intern(scanner.experiments().text(found.experiment)),
          .strategy = strategies.Intern(scanner.strategies().text(found.strategy)),
          .file = file,
          .line = static_cast<uint32_t>(lines_before + found.line),
          .length = found.length,
          .offset = found.offset,
      });
    }
    lines_before += scanner.num_lines();
  };
  MakeInOrder(pieces.size(), scan, take);
  for (uint32_t i = 0; i < experiments.size(); ++i) experiments_.emplace_back(experiments.text(i));
  for (uint32_t i = 0; i < strategies.size(); ++i) strategies_.emplace_back(strategies.text(i));
}

void RecordIndex::Finish() {
  ScanFiles();
  NumberEntries();
  const auto place = [](const Entry& e) {
    return std::tie(e.run, e.cell, e.measurement, e.rank, e.file, e.line);
  };
  std::sort(entries_.begin(), entries_.end(),
            [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  size_t kept = 0;
  for (const Entry& entry : entries_) {
    const Entry* last = kept > 0 ? &entries_[kept - 1] : nullptr;
    if (last != nullptr && last->measurement == entry.measurement && last->rank == entry.rank) {
      Reject(entry, Join("a second record of rank ", entry.rank, " for the configuration of ",
                         files_[last->file], ":", last->line));
    } else {
      entries_[kept++] = entry;
    }
  }
  entries_.resize(kept);
}

void RecordIndex::Reject(const Entry& entry, std::string reason) {
  problems_->AddLine(files_[entry.file], entry.line, std::move(reason));
}

RecordReader::OpenFile& RecordReader::Open(uint32_t file) {
  if (open_files_.size() >= kMaxOpenFiles && !open_files_.contains(file)) open_files_.clear();
  OpenFile& open = open_files_[file];
  if (open.input == nullptr) open.input = std::make_unique<InputFile>(index_.files()[file]);
  return open;
}

// Ahead only where lines follow each other, so that nothing is read many times.
std::string_view RecordReader::ReadLine(const RecordIndex::Entry& entry) {
  OpenFile& file = Open(entry.file);
  const uint64_t end = entry.offset + entry.length;
  if (entry.offset < file.offset || end > file.offset + file.ahead.size()) {
    const bool follows = entry.offset == file.next;
    file.ahead.resize(std::max<size_t>(entry.length, follows ? kReadAheadBytes : 0));
    file.ahead.resize(file.input->Read(entry.offset, file.ahead.data(), file.ahead.size()));
    file.offset = entry.offset;
  }
  file.next = end + 1;
  const size_t begin = entry.offset - file.offset;
  return std::string_view(file.ahead.data(), file.ahead.size()).substr(begin, entry.length);
}

std::string RecordReader::Load(const RecordIndex::Entry& entry, Record* record) {
  try {
    return parser_.ParseInto(ReadLine(entry), record);
  } catch (const std::runtime_error& failure) {
    open_files_.erase(entry.file);
    return Join("cannot read: ", failure.what());
  }
}

}  // namespace gradsync::tools
