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

// Benchmarks write records, and programs below tools/ read records and compute statistics. A record contains
// raw samples and facts about the measurement, such as the machine.
//
// A record has what one rank measured of one configuration (a strategy, a model, a batch size, ...) in one
// launch (a start of all ranks). In the output directory, the file <experiment>.<run_id>.rank<r>.jsonl has
// the records of rank r, with one JSON object per line. The first line of a record has its configuration.
// Later data, such as the times of steps, may be on further lines (continuation lines), so a process that is
// killed leaves all data that it has written. names.h lists the names in a record's configuration, samples,
// checks, facts and link, with their meanings.
namespace gradsync::bench {

inline constexpr std::string_view kRecordSchema = "gradsync.record/5";

// A value in a record. A double that is not finite is written to JSON as null, and null is read as NaN.
using Value = std::variant<bool, int64_t, double, std::string>;

// A list of named values of a record, in the order in which the names were first set.
class Fields {
 public:
  // Gives `name` the value `value`. A name that already has a value keeps its place in the order.
  void Set(std::string_view name, Value value);
  template <std::integral T>
  requires(!std::same_as<T, bool>) void Set(std::string_view name, T value) {
    Set(name, Value(static_cast<int64_t>(value)));
  }
  template <std::convertible_to<std::string_view> T>
  void Set(std::string_view name, const T& value) {
    Set(name, Value(std::string(std::string_view(value))));
  }

  const Value* Find(std::string_view name) const;
  // The next four functions return the value of `name`, or `fallback` if the value is missing or has another
  // type. DoubleOr also accepts integers.
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

// A FieldsOf has the names and values of one part of a record, such as the configuration. A call of a member
// function does not compile if the name that it passes is a literal that names.h does not list for this part.
template <RecordPart kPart>
class FieldsOf : public Fields {
 public:
  using Name = NameIn<kPart>;

  template <class T>
  void Set(Name name, const T& value) {
    Fields::Set(name.text(), value);
  }
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

using ConfigFields = FieldsOf<RecordPart::kConfig>;
using CheckFields = FieldsOf<RecordPart::kChecks>;
using FactFields = FieldsOf<RecordPart::kFacts>;
using LinkFields = FieldsOf<RecordPart::kLink>;

// The samples of a record: series of measured integers by name.
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
  // Throws std::out_of_range if no series of samples has the name `name`.
  const Values& at(Name name) const { return by_name_.at(std::string(name.text())); }
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

// Describes a bucket: gradients or weights that a training step communicates in one collective operation.
struct BucketRecord {
  int64_t bytes = 0;
  int64_t tensors = 0;
  std::string collective = "all_reduce";
};

// Facts about the program, the machine and the software with which the samples of a record were measured.
struct Provenance {
  std::string gradsync_commit = "unknown";  // the commit, 40 hexadecimal digits
  bool dirty = false;                       // true if files outside docs/ differed from the commit
  std::string host;
  std::string os;         // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;     // "Linux 6.1.0-18-amd64"
  std::string cpu_model;  // name of the CPU
  // Number of logical CPUs on which this process may run, by its affinity mask.
  int64_t cpu_count = 0;
  int64_t memory_bytes = 0;
  std::string gpu;       // name of the GPU; empty if no GPU is used
  std::string compiler;  // "gcc 12.2.0"
  std::string build;     // "opt" or "dbg", with "+asan" or "+tsan"
  Fields libraries;      // versions by name
  std::string command_line;
  // The program's path and the flags that the user gave, except flags with a mark in kChoosesRun
  // (bench/launch/flag_marks.h), such as --variants and --out. //tools:summarize adds values of some of the
  // left-out flags to base_command, and prints the result as a command that measures again. base_command is
  // empty in records of earlier versions of gradsync and in records of publications.
  std::string base_command = {};
  // The name of the clock that measured the times. Benchmarks write "CUDA events, device, ns" if a GPU
  // computes.
  std::string clock = "steady_clock, host, ns";
};

struct Record {
  int64_t number = -1;     // number of the record in its file, from 0; negative if it has no number
  std::string experiment;  // "ddp", "all_reduce" or "convergence"
  std::string run_id;      // name of the launch, equal on all ranks and in all records of the launch
  std::string time_utc;    // NowUtc()
  int64_t rank = 0;
  int64_t world_size = 1;
  // `variant` (the strategy, its options and the backend) and `config` (model, batch size, number of steps,
  // ...) say what was measured, and how. `variant` and `config` are equal on all ranks.
  Variant variant;
  ConfigFields config;
  // The measured values, such as times, as series of equal length. Each series has one entry for each
  // measurement, which is one timed iteration of //bench:all_reduce, or one or more timed training steps.
  SampleSeries samples;
  // Maps the name of each measured time to its published statistics: "mean_ns", "std_ns" (of the population),
  // "median_ns", "p90_ns", "n" (the number of steps), ... Only records that were made from publications
  // (docs/published) have entries in this map, because a publication has no samples. Benchmarks leave this
  // map empty.
  std::map<std::string, FieldsOf<RecordPart::kPublished>> published;
  std::vector<BucketRecord> buckets;
  CheckFields checks;
  FactFields facts;
  Provenance provenance;
  LinkFields link;
};

// Returns a text that is equal for two records if their ranks ran on the same machine without a reboot in
// between: the fact "boot". If the record has no fact "boot", as in earlier versions of gradsync, returns the
// name of the host.
std::string MachineOf(const Record& record);

// Returns the JSON object that is the first line of a record in its file, without the newline. Bytes that are
// not UTF-8 become the character U+FFFD.
std::string ToJsonLine(const Record& record);
// Returns a line of a records file, without the newline. The line adds the samples, buckets, checks and facts
// of `more` to the record with the number `of` in that file.
std::string ToContinuationLine(int64_t of, const Record& more);

// Appends the samples of `more` to those of `record`. Copies the checks and facts of `more` into `record`,
// and replaces the buckets of `record` by those of `more` if `more` has any. If the series of samples would
// get unequal lengths, changes nothing and returns a line that says so; otherwise returns an empty text.
std::string Append(const Record& more, Record* record);

// Parses `line`, the next line of a records file without its newline. If `line` is the first line of a
// record, appends this record to `records`. If `line` is a continuation line, adds the line's data to the
// record in `records` to which the line belongs. Returns an empty text, or one line that explains why the
// line cannot be used, for example because a required name is missing or a value has the wrong type.
std::string AddLine(std::string_view line, std::vector<Record>* records);

class RecordWriter {
 public:
  // Creates the directory `dir` and its parents, and opens the file <experiment>.<run_id>.rank<rank>.jsonl
  // there. Throws InvalidInput, naming the path and the reason, if the directory cannot be created, or if the
  // file cannot be opened or is not empty.
  RecordWriter(const std::string& dir, std::string_view experiment, std::string_view run_id, int64_t rank);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Adds a record to the data that the next call of Write writes. Returns the record's number, with which
  // Continue adds more data to it.
  int64_t Begin(const Record& record);
  void Continue(int64_t of, const Record& more);
  // Writes into the file all data that Begin and Continue have added since the last Write. When Write
  // returns, the operating system has these data, so they are not lost if the process is killed. Throws
  // std::runtime_error, with the file's path and the reason, if it cannot write.
  void Write();
  // Writes into the file as Write does, and flushes the data to disk, so that they survive a crash of the
  // machine. WriteToDisk does not flush devices, such as /dev/null. Throws std::runtime_error, with the
  // file's path and the reason, if it cannot write or flush the data.
  void WriteToDisk();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
  int64_t num_records_ = 0;
  std::string unwritten_;
};

// Returns a name for a launch (Record::run_id): the time in UTC and four random hexadecimal digits,
// "20261121T101500-4f2a".
std::string NewRunId();

// Returns the present time in UTC, such as "2026-11-21T10:15:00Z".
std::string NowUtc();

}  // namespace gradsync::bench
