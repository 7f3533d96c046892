#include "bench/learning/checkpoint.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_split.h"
#include "bench/records/units.h"
#include "model/error.h"
#include "model/safetensors.h"

namespace gradsync::bench {
namespace {

using model::SafetensorsFile;
using model::Tensor;

constexpr char kFormat[] = "gradsync.checkpoint", kVersion[] = "1";

// Elements [begin, end) of what `name` names; `end` negative: to its end.
struct Range {
  std::string name;
  int64_t begin = 0, end = -1;
};

// What "NAME[BEGIN:END]" or "NAME" names.
Range RangeOf(const std::string& text) {
  const size_t open = text.rfind('[');
  if (open == std::string::npos || !text.ends_with(']')) return {text};
  const std::vector<std::string> ends = absl::StrSplit(text.substr(open + 1, text.size() - open - 2), ':');
  if (ends.size() != 2) return {text};
  return {text.substr(0, open), ParseInteger(ends[0]).value_or(0), ParseInteger(ends[1]).value_or(0)};
}

Tensor Flat(const Tensor& tensor, int64_t begin, int64_t count) { return tensor.Slice(begin, {count}); }

// Copies what the file has of the target's elements in parts that no file before had (`seen`: each host may
// have them). Returns how many those are.
int64_t FillFrom(const SafetensorsFile& file, const Range& wanted, const Tensor& target,
                 std::set<std::string>& seen) {
  const int64_t end = wanted.end < 0 ? target.numel() : wanted.end;
  int64_t filled = 0;
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    const Range part = RangeOf(entry.name);
    if (part.name != wanted.name || entry.dtype != target.dtype()) continue;
    const int64_t part_end = part.begin + model::Numel(entry.shape);
    const int64_t from = std::max(part.begin, wanted.begin), to = std::min(part_end, end);
    if (from >= to || !seen.insert(entry.name).second) continue;
    const Tensor loaded = file.Load(entry.name, target.device());
    Flat(target, from - wanted.begin, to - from).CopyFrom(Flat(loaded, from - part.begin, to - from));
    filled += to - from;
  }
  return filled;
}

}  // namespace

std::string CheckpointPath(const std::string& directory, const std::string& variant, int64_t seed, int rank) {
  return Join(directory, "/", variant, ".seed", seed, ".rank", rank, ".safetensors");
}

void SaveCheckpoint(const std::string& path, std::span<const model::NamedTensor> tensors,
                    const CheckpointFacts& facts) {
  CheckpointFacts all = facts;
  all.insert_or_assign(kFormat, kVersion);
  model::WriteSafetensors(path, tensors, all);
}

CheckpointFacts ReadCheckpointFacts(const std::string& path, const CheckpointFacts& expected) {
  try {
    CheckpointFacts facts = SafetensorsFile::Open(path).metadata();
    Require(facts[kFormat] == kVersion, path, ": is not a checkpoint of gradsync");
    for (const auto& [name, value] : expected)
      Require(facts[name] == value, path, ": its ", name, " is ", facts[name], ", expected ", value);
    for (const char* const name : {"rank", "world_size", "steps"})
      Require(ParseInteger(facts[name]).has_value(), path, ": has no ", name);
    return facts;
  } catch (const InvalidInput& error) {
    throw InvalidInput(Join("--resume: ", error.what()));
  }
}

void LoadCheckpoint(const std::vector<std::string>& paths, std::span<const model::NamedTensor> tensors) {
  try {
    const SafetensorsFile own = SafetensorsFile::Open(paths.front());
    for (const auto& [name, target] : tensors) {
      if (own.Find(name) != nullptr) {
        own.LoadInto(name, target);
        continue;
      }
      int64_t filled = 0;
      std::set<std::string> seen;
      for (const std::string& path : paths)
        filled += FillFrom(SafetensorsFile::Open(path), RangeOf(name), target, seen);
      Require(filled == target.numel(), paths.front(), ": there is no ", name, ", nor all parts of it");
    }
  } catch (const InvalidInput& error) {
    throw InvalidInput(Join("--resume: ", error.what()));
  }
}

}  // namespace gradsync::bench
