#include "tools/record_index.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kMaxOpenFiles = 256;

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
RecordIndex::Keys RecordIndex::KeysOf(const Record& head) {
  const uint64_t run =
      HashText(head.experiment) + 3 * HashText(head.run_id) + 5 * Mix(static_cast<uint64_t>(head.world_size));
  Keys keys{run, run, run};
  for (const auto& [name, value] : head.config) {
    if (Contains(kRankFields, name)) continue;
    const uint64_t field = Mix(HashText(name) + 7 * HashValue(value));
    keys.measurement += field;
    if (Contains(kCellFields, name)) keys.cell += field;
  }
  // Where there are no strategies there is nothing to compare.
  if (head.config.Find("strategy") == nullptr) keys.cell = keys.measurement;
  return keys;
}

std::vector<uint32_t> RecordIndex::FirstWithSame(uint64_t Keys::*hash) const {
  std::vector<uint32_t> by_hash(keys_.size());
  std::iota(by_hash.begin(), by_hash.end(), 0U);
  std::stable_sort(by_hash.begin(), by_hash.end(),
                   [&](uint32_t a, uint32_t b) { return keys_[a].*hash < keys_[b].*hash; });
  // Equal hashes are neighbours now, the first record that had one in front.
  std::vector<uint32_t> first(keys_.size());
  for (size_t i = 0; i < by_hash.size(); ++i) {
    const bool is_first = i == 0 || keys_[by_hash[i]].*hash != keys_[by_hash[i - 1]].*hash;
    first[by_hash[i]] = is_first ? by_hash[i] : first[by_hash[i - 1]];
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
  const bench::ParseResult result = parser_.ParseHead(reader.line());
  if (const std::string* reason = std::get_if<std::string>(&result)) {
    return problems_->AddLine(path, reader.number(), *reason);
  }
  const Record& head = std::get<Record>(result);
  keys_.push_back(KeysOf(head));
  entries_.push_back({
      .rank = static_cast<uint32_t>(head.rank),
      .strategy = strategy_pool_.Intern(head.config.StringOr("strategy", "")),
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
  for (uint32_t i = 0; i < strategy_pool_.size(); ++i) strategies_.emplace_back(strategy_pool_.text(i));
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

const InputFile* RecordIndex::Open(uint32_t file) {
  if (open_files_.size() >= kMaxOpenFiles && !open_files_.contains(file)) open_files_.clear();
  std::unique_ptr<InputFile>& input = open_files_[file];
  if (input == nullptr) input = std::make_unique<InputFile>(files_[file]);
  return input.get();
}

std::optional<Record> RecordIndex::Load(const Entry& entry) {
  if (line_.size() < entry.length) line_.resize(entry.length);
  try {
    const size_t n = Open(entry.file)->Read(entry.offset, line_.data(), entry.length);
    bench::ParseResult result = parser_.Parse({line_.data(), n});
    if (Record* record = std::get_if<Record>(&result)) return std::move(*record);
    Reject(entry, std::get<std::string>(result));
  } catch (const std::runtime_error& failure) {
    open_files_.erase(entry.file);
    Reject(entry, Join("cannot read: ", failure.what()));
  }
  return std::nullopt;
}

void RecordIndex::Reject(const Entry& entry, std::string reason) {
  problems_->AddLine(files_[entry.file], entry.line, std::move(reason));
}

}  // namespace gradsync::tools
