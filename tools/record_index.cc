#include "tools/record_index.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <tuple>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kMaxOpenFiles = 256;
constexpr size_t kMaxConfigs = 256;
constexpr size_t kReadAheadBytes = size_t{64} << 10;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// What strategies of one comparison have in common. Fields that belong to a strategy, such as its bucket
// size, are not here.
constexpr std::string_view kCellFields[] = {
    "model", "backend", "device",    "dtype",        "batch_size", "seq_len", "threads_per_rank", "order",
    "seed",  "steps",   "optimizer", "warmup_steps", "image_size", "units",   "buffer_elements"};

// Each rank's own, so no part of what ranks share.
constexpr std::string_view kRankFields[] = {"placement"};

template <size_t n>
bool Contains(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Spreads the bits, so that sums of hashes collide no more often than hashes.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44d;
  return x ^ (x >> 33);
}

uint64_t HashText(std::string_view text) { return Mix(std::hash<std::string_view>()(text)); }

uint64_t HashValue(const bench::Value& value) { return Mix(std::hash<bench::Value>()(value)); }

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

// Sums, so that the order of the fields does not matter.
RecordIndex::ConfigKeys RecordIndex::KeysOf(const bench::Fields& config) {
  ConfigKeys keys{.config = config};
  for (const auto& [name, value] : config) {
    if (Contains(kRankFields, name)) continue;
    const uint64_t field = Mix(HashText(name) + 7 * HashValue(value));
    keys.measurement += field;
    if (Contains(kCellFields, name)) keys.cell += field;
  }
  // Where there are no strategies there is nothing to compare.
  if (config.Find("strategy") == nullptr) keys.cell = keys.measurement;
  return keys;
}

RecordIndex::Keys RecordIndex::KeysOf(const Record& head) {
  const uint64_t run =
      HashText(head.experiment) + 3 * HashText(head.run_id) + 5 * Mix(static_cast<uint64_t>(head.world_size));
  const void* const id = head.config.shared_id();
  auto known = config_keys_.find(id);
  if (id == nullptr || known == config_keys_.end()) {
    if (config_keys_.size() >= kMaxConfigs) config_keys_.clear();
    known = config_keys_.insert_or_assign(id, KeysOf(head.config)).first;
  }
  return {run, run + known->second.cell, run + known->second.measurement};
}

// A table of the numbers, by hash: a standard map would take some hundred bytes a record.
std::vector<uint32_t> RecordIndex::FirstWithSame(uint64_t Keys::*hash) const {
  std::vector<uint32_t> first(keys_.size());
  std::vector<uint32_t> slots(std::bit_ceil(2 * keys_.size() + 1), kNone);
  const size_t mask = slots.size() - 1;
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    const uint64_t wanted = keys_[i].*hash;
    size_t slot = Mix(wanted) & mask;
    while (slots[slot] != kNone && keys_[slots[slot]].*hash != wanted) slot = (slot + 1) & mask;
    if (slots[slot] == kNone) slots[slot] = i;
    first[i] = slots[slot];
  }
  return first;
}

// One kind of number at a time, because each takes memory for all records.
void RecordIndex::NumberEntries() {
  const auto number_by = [&](uint64_t Keys::*hash, uint32_t Entry::*number) {
    const std::vector<uint32_t> first = FirstWithSame(hash);
    for (size_t i = 0; i < entries_.size(); ++i) entries_[i].*number = first[i];
  };
  number_by(&Keys::run, &Entry::run);
  number_by(&Keys::cell, &Entry::cell);
  number_by(&Keys::measurement, &Entry::measurement);
  keys_ = {};
  config_keys_ = {};
}

void RecordIndex::Add(const std::string& path) {
  std::error_code error;
  Require(std::filesystem::exists(path, error), path, ": no such file or directory");
  if (!std::filesystem::is_directory(path, error)) return AddFile(path);
  for (const std::string& file : RecordFilesIn(path, problems_)) AddFile(file);
}

void RecordIndex::AddFile(const std::string& path) {
  std::error_code error;
  if (!seen_files_.insert(std::filesystem::weakly_canonical(path, error).string()).second) return;
  files_.push_back(path);
  try {
    const InputFile file(path);
    LineReader reader(file);
    while (reader.Next()) AddLine(reader);
    if (reader.number() == 0) problems_->AddFile(path, "empty");
  } catch (const std::exception& failure) {
    problems_->AddFile(path, Join("cannot read: ", failure.what()));
  }
}

void RecordIndex::AddLine(const LineReader& reader) {
  const std::string& path = files_.back();
  if (reader.too_long()) {
    return problems_->AddLine(
        path, reader.number(),
        Join("longer than ", LineReader::kMaxLineBytes >> 20, " MiB: not a gradsync record"));
  }
  if (reader.line().find_first_not_of(" \t\r") == std::string_view::npos) return;
  std::string reason = parser_.ParseHeadInto(reader.line(), &head_);
  if (!reason.empty()) return problems_->AddLine(path, reader.number(), std::move(reason));
  keys_.push_back(KeysOf(head_));
  entries_.push_back({
      .rank = static_cast<uint32_t>(head_.rank),
      .experiment = experiment_pool_.Intern(head_.experiment),
      .strategy = strategy_pool_.Intern(head_.config.StringOr("strategy", "")),
      .file = static_cast<uint32_t>(files_.size() - 1),
      .line = static_cast<uint32_t>(reader.number()),
      .length = static_cast<uint32_t>(reader.line().size()),
      .offset = reader.offset(),
  });
}

void RecordIndex::Finish() {
  NumberEntries();
  const auto place = [](const Entry& e) {
    return std::tie(e.run, e.cell, e.measurement, e.rank, e.file, e.line);
  };
  std::sort(entries_.begin(), entries_.end(),
            [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  const auto texts_of = [](const TextPool& pool) {
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < pool.size(); ++i) texts.emplace_back(pool.text(i));
    return texts;
  };
  experiments_ = texts_of(experiment_pool_);
  strategies_ = texts_of(strategy_pool_);
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

RecordIndex::OpenFile& RecordIndex::Open(uint32_t file) {
  if (open_files_.size() >= kMaxOpenFiles && !open_files_.contains(file)) open_files_.clear();
  OpenFile& open = open_files_[file];
  if (open.input == nullptr) open.input = std::make_unique<InputFile>(files_[file]);
  return open;
}

// Ahead only where lines follow each other, so that nothing is read many times.
std::string_view RecordIndex::ReadLine(const Entry& entry) {
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

bool RecordIndex::Load(const Entry& entry, Record* record) {
  std::string reason;
  try {
    reason = parser_.ParseInto(ReadLine(entry), record);
  } catch (const std::runtime_error& failure) {
    open_files_.erase(entry.file);
    reason = Join("cannot read: ", failure.what());
  }
  if (!reason.empty()) Reject(entry, reason);
  return reason.empty();
}

void RecordIndex::Reject(const Entry& entry, std::string reason) {
  problems_->AddLine(files_[entry.file], entry.line, std::move(reason));
}

}  // namespace gradsync::tools
