#include "tools/records/scanner.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <string_view>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kMaxConfigs = 256;

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

}  // namespace

// Sums, so that the order of the fields does not matter.
RecordScanner::ConfigKeys RecordScanner::KeysOf(const bench::Fields& config) {
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

RecordKeys RecordScanner::KeysOf(const Record& head) {
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

void RecordScanner::Scan(const std::string& path, uint64_t begin, uint64_t end) {
  found_.clear();
  bad_lines_.clear();
  num_lines_ = 0;
  failure_.clear();
  try {
    const InputFile file(path);
    LineReader reader(file, begin);
    while (reader.Next() && reader.offset() < end) {
      num_lines_ = reader.number();
      TakeLine(reader);
    }
  } catch (const std::exception& failure) {
    failure_ = failure.what();
  }
}

void RecordScanner::TakeLine(const LineReader& reader) {
  if (reader.too_long()) {
    bad_lines_.emplace_back(reader.number(), Join("longer than ", LineReader::kMaxLineBytes >> 20,
                                                  " MiB: not a gradsync record"));
    return;
  }
  if (reader.line().find_first_not_of(" \t\r") == std::string_view::npos) return;
  std::string reason = parser_.ParseHeadInto(reader.line(), &head_);
  if (!reason.empty()) {
    bad_lines_.emplace_back(reader.number(), std::move(reason));
    return;
  }
  found_.push_back({
      .keys = KeysOf(head_),
      .offset = reader.offset(),
      .line = static_cast<uint32_t>(reader.number()),
      .length = static_cast<uint32_t>(reader.line().size()),
      .rank = static_cast<uint32_t>(head_.rank),
      .experiment = experiments_.Intern(head_.experiment),
      .strategy = strategies_.Intern(head_.config.StringOr("strategy", "")),
  });
}

}  // namespace gradsync::tools
