#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bench/records/names.h"
#include "bench/records/variant.h"

// What the benchmarks write and the tools read: raw samples, and everything needed to judge them.
//
// One record is for one (configuration, rank) of one run. One file holds the records of one rank, a JSON
// object a line: DIR/<experiment>.<run_id>.rank<r>.jsonl. A record begins with a line of its own; what comes
// later, such as further steps and checks, is on continuation lines, so that a process that is killed leaves
// all that it had measured. Every name that may stand in a record is in names.h, with its meaning. No
// statistics are computed here.
namespace gradsync::bench {

inline constexpr std::string_view kRecordSchema = "gradsync.record/5";

// One value of a record. In JSON: true/false, a number without a fraction, any other number, a string. A
// double that is not finite is written as null, and null is read as NaN.
using Value = std::variant<bool, int64_t, double, std::string>;

// Names with values, in the order in which they were first set: any names, as they are read from files.
class Fields {
 public:
  // Sets `name`, in place if it is there already.
  void Set(std::string_view name, Value value);
  template <std::integral T>
  requires(!std::same_as<T, bool>) void Set(std::string_view name, T value) {
    Set(name, Value(static_cast<int64_t>(value)));
  }
  template <std::convertible_to<std::string_view> T>
  void Set(std::string_view name, const T& value) {
    Set(name, Value(std::string(std::string_view(value))));
  }

  // Null when there is no such name.
  const Value* Find(std::string_view name) const;
  // The value, or `fallback` when there is none or it is of another type. DoubleOr takes integers too.
  bool BoolOr(std::string_view name, bool fallback) const;
  int64_t IntOr(std::string_view name, int64_t fallback) const;
  double DoubleOr(std::string_view name, double fallback) const;
  std::string StringOr(std::string_view name, std::string_view fallback) const;

  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

// The fields of one part of a record, where only its own names compile.
template <Part kPart>
class FieldsOf : public Fields {
 public:
  using Name = NameIn<kPart>;

  template <class T>
  void Set(Name name, const T& value) {
    Fields::Set(name.text(), value);
  }
  // Sets what `more` has.
  void SetAll(const FieldsOf& more) {
    for (const auto& [name, value] : more) Fields::Set(name, value);
  }
  const Value* Find(Name name) const { return Fields::Find(name.text()); }
  bool BoolOr(Name name, bool fallback) const { return Fields::BoolOr(name.text(), fallback); }
  int64_t IntOr(Name name, int64_t fallback) const { return Fields::IntOr(name.text(), fallback); }
  double DoubleOr(Name name, double fallback) const { return Fields::DoubleOr(name.text(), fallback); }
  std::string StringOr(Name name, std::string_view fallback) const {
    return Fields::StringOr(name.text(), fallback);
  }
};

using ConfigFields = FieldsOf<Part::kConfig>;
using CheckFields = FieldsOf<Part::kChecks>;
using FactFields = FieldsOf<Part::kFacts>;
using LinkFields = FieldsOf<Part::kLink>;

// Integers by name, where only the names of samples compile.
class SampleSeries {
 public:
  using Name = SampleName;
  using Values = std::vector<int64_t>;
  using Map = std::map<std::string, Values, std::less<>>;
  struct Entry {
    Name name;
    Values values;
  };

  SampleSeries() = default;
  SampleSeries(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) (*this)[entry.name] = entry.values;
  }

  Values& operator[](Name name) { return by_name_[std::string(name.text())]; }
  // Throws std::out_of_range without such a series.
  const Values& at(Name name) const { return by_name_.at(std::string(name.text())); }
  // Null without such a series.
  const Values* Find(Name name) const {
    const auto found = by_name_.find(name.text());
    return found == by_name_.end() ? nullptr : &found->second;
  }
  bool contains(Name name) const { return Find(name) != nullptr; }

  bool empty() const { return by_name_.empty(); }
  size_t size() const { return by_name_.size(); }
  void erase(Name name) { by_name_.erase(std::string(name.text())); }
  void clear() { by_name_.clear(); }
  auto begin() const { return by_name_.begin(); }
  auto end() const { return by_name_.end(); }
  const Map& by_name() const { return by_name_; }
  Map& by_name() { return by_name_; }

 private:
  Map by_name_;
};

// What one collective of a step sent.
struct BucketRecord {
  int64_t bytes = 0;
  int64_t tensors = 0;
  std::string collective = "all_reduce";
};

// Where, on what and from what the samples came.
struct Provenance {
  std::string gradsync_commit = "unknown";  // 40 hex digits
  bool dirty = false;                       // files differed from the commit
  std::string host;
  std::string os;         // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;     // "Linux 6.1.0-18-amd64"
  std::string cpu_model;  // as the CPU names itself
  int64_t cpu_count = 0;  // logical CPUs that this process may use; as tools read it, all ranks of its host
  int64_t memory_bytes = 0;
  std::string gpu;       // empty: none used
  std::string compiler;  // "gcc 12.2.0"
  std::string build;     // "opt" or "dbg", with "+asan" or "+tsan"
  Fields libraries;      // name -> version
  std::string command_line;
  std::string clock = "steady_clock, host, ns";  // what the samples mean: "CUDA events, device, ns" for a GPU
};

struct Record {
  int64_t number = -1;     // in its file, from 0; negative: none
  std::string experiment;  // "ddp", "all_reduce"
  std::string run_id;      // NewRunId() of rank 0: the same on all ranks and for all configurations of a run
  std::string time_utc;    // NowUtc()
  int64_t rank = 0;
  int64_t world_size = 1;
  // Together with the configuration, this is all that tells this measurement from another. It is the same on
  // all ranks.
  Variant variant;
  ConfigFields config;
  // One entry per measured step, all of one length.
  SampleSeries samples;
  // Statistics of samples, or of sums of them (tools/records/measurement.h), by their names, where nobody has
  // more than a table that was published: "mean_ns", "std_ns" (population), "median_ns", "p90_ns", "p95_ns",
  // "p99_ns", "n" (steps behind them), and what was printed beside them. Such a record has no samples. No
  // benchmark writes this.
  std::map<std::string, FieldsOf<Part::kPublished>> published;
  std::vector<BucketRecord> buckets;
  CheckFields checks;
  FactFields facts;
  Provenance provenance;
  LinkFields link;
};

// Equal for ranks that share CPUs and a clock. Older records tell machines apart by the hosts' names alone,
// which containers may have of their own and clones of a machine in common.
std::string MachineOf(const Record& record);

// A record's own line, without the newline at its end. Bytes that are not UTF-8 are replaced.
std::string ToJsonLine(const Record& record);
// A line with more of record `of`: the samples, buckets, checks and facts of `more`.
std::string ToContinuationLine(int64_t of, const Record& more);

// Appends the samples of `more`, and sets its checks, facts and, if it has any, buckets. Returns
// why that cannot be, in one line, and then has done nothing; empty if it could.
std::string Append(const Record& more, Record* record);

// Reads the next line of a file, without its newline: adds a record to those of the lines before it, or what
// it continues to one of them. Names that are not in the schema are skipped; of those that are, "schema",
// "experiment", "run_id", "rank", "world_size", "variant", "run", "cell" and "samples" must be there, and
// values have the schema's types. Returns why the line cannot be used, in one line of text; empty if it can.
std::string AddLine(std::string_view line, std::vector<Record>* records);

// Appends the records of one rank to its file.
class RecordWriter {
 public:
  // Creates `dir` and the directories above it. Throws InvalidInput, naming the path and the system's reason,
  // if that or opening the file fails, or if the file has records already.
  RecordWriter(const std::string& dir, std::string_view experiment, std::string_view run_id, int64_t rank);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Begins a record, and returns its number.
  int64_t Begin(const Record& record);
  void Continue(int64_t of, const Record& more);
  // Writes what was begun and continued since the last time, all at once: a process that is killed loses
  // nothing of what was written before. Throws std::runtime_error with the path and the system's reason.
  void Write();
  // The same, and returns when it is on disk: nothing is lost with the machine either. Takes longer.
  void WriteToDisk();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
  int64_t num_records_ = 0;
  std::string unwritten_;
};

// The time in UTC and four random hexadecimal digits: "20261121T101500-4f2a".
std::string NewRunId();

// "2026-11-21T10:15:00Z"
std::string NowUtc();

}  // namespace gradsync::bench
