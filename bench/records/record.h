#ifndef GRADSYNC_BENCH_RECORDS_RECORD_H_
#define GRADSYNC_BENCH_RECORDS_RECORD_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// What the benchmarks write and the tools read: raw samples, and everything needed to judge them.
//
// One record is one JSON line, for one (configuration, rank) of one run. One file holds the records of one
// rank: DIR/<experiment>.<run_id>.rank<r>.jsonl. No statistics are computed here or in a benchmark.
namespace gradsync::bench {

inline constexpr std::string_view kRecordSchema = "gradsync.record/1";

// One value of a record. In JSON: true/false, a number without a fraction, any other number, a string. A
// double that is not finite is written as null, and null is read as NaN.
using Value = std::variant<bool, int64_t, double, std::string>;

// Names with values, in the order in which they were first set.
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

// What one collective of a step sent.
struct BucketRecord {
  int64_t bytes = 0;
  int64_t tensors = 0;
};

// Where, on what and from what the samples came.
struct Provenance {
  std::string gradsync_commit = "unknown";  // 40 hex digits
  bool dirty = false;                       // files differed from the commit
  std::string host;
  std::string os;         // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;     // "Linux 6.1.0-18-amd64"
  std::string cpu_model;  // as the CPU names itself
  int64_t cpu_count = 0;  // logical CPUs that this process may use
  int64_t memory_bytes = 0;
  std::string gpu;       // empty: none used
  std::string compiler;  // "gcc 12.2.0"
  std::string build;     // "opt" or "dbg", with "+asan" or "+tsan"
  Fields libraries;      // name -> version
  std::string command_line;
  std::string clock = "steady_clock, host, ns";  // what the samples mean: "CUDA events, device, ns" for a GPU
};

struct Record {
  std::string experiment;  // "ddp", "all_reduce", "compare"
  std::string run_id;      // NewRunId() of rank 0: the same on all ranks and for all configurations of a run
  std::string time_utc;    // NowUtc()
  int64_t rank = 0;
  int64_t world_size = 1;
  // Everything that makes this measurement different from another. The same on all ranks, but for
  // "placement". All: "backend", "device", "dtype", "threads_per_rank", "comm_threads", "placement", "seed".
  // all_reduce: "op", "size_bytes", "iterations", "warmup_iterations".
  // ddp and compare: "model", "strategy", "batch_size", "bucket_bytes", "order" ("interleaved" or "blocks"),
  //   "warmup_steps", "steps", "optimizer" ("adamw" or "sgd"), "learning_rate", "traced" (every
  //   step also wrote a trace), "data"; transformers "seq_len".
  // ddp: "num_layers", "d_model", "d_ff", "num_heads", "vocab_size", "weights".
  // compare: "units" ("bytes" or "published"), "buffer_elements" (the size on the label, of which
  //   "bucket_bytes" is what it means to the strategy); images "image_size", "width" (channels of the first
  //   layers).
  Fields config;
  // One entry per measured step. all_reduce: "time_ns". ddp and compare, from the marks of a step
  // (bench/timing/phase_timer.h):
  //   "step_ns"               from the step's first work to its last, the optimizer's included
  //   "forward_ns"            with the loss, and the broadcast of buffers where a model has them
  //   "backward_ns"           to the end of the last gradient's computation
  //   "sync_exposed_ns"       from there until every gradient is averaged
  //   "backward_and_sync_ns"  both together; what a published "backward" is whose strategy waits inside it
  //   "comm_busy_ns"          the union of the intervals with a collective in flight
  //   "optimizer_ns"
  // Of peers, which say nothing of their collectives, "comm_busy_ns" and, where gradients are averaged inside
  // of backward, "sync_exposed_ns" are missing. "position": the index of the step in the run's own order over
  // all its configurations. With --profile also "<phase>.<operation>_ns", see
  // bench/timing/step_profile.h, which has facts of such names too. All of one length.
  std::map<std::string, std::vector<int64_t>> samples;
  // Steps x buckets, row by row, all of one length: moments of the collectives of each step.
  std::map<std::string, std::vector<int64_t>> moments;
  // Statistics of samples that nobody has any more, by the samples' names, where they were published as a
  // table: "mean_ns", "std_ns" (population), "median_ns", "p90_ns", "p95_ns", "p99_ns", "n" (steps behind
  // them), and what was printed beside them. Such a record has no samples. No benchmark writes this.
  std::map<std::string, Fields> published;
  std::vector<BucketRecord> buckets;
  // Training: "reference" ("single_process" or "none"), "grad_rel_error", "param_rel_error", "grads_equal",
  // "params_equal", "replicas_equal", "tolerance", "worst_grad", "worst_param". all_reduce: "wrong_elements",
  // "checked_elements".
  Fields checks;
  // All: "launcher", "local_size" (ranks on this host), "collectives_in_flight" (at once, at most); pinned
  // "compute_cpus", "communication_cpus"; of a GPU "gpu_uuid", "gpu_pci_bus_id", "gpu_ordinal",
  // "ranks_per_gpu". Training: "num_parameters", "num_tensors", "gradient_bytes", "tokens_per_step" or
  // "images_per_step", "allocations_in_timed_steps"; of memory "peak_bytes_in_use" and "bytes_held" (from the
  // system or driver) in the timed steps, on the device, with the buffers of "strategies_in_memory"
  // strategies. Of a peer whose model was compiled: "compiled" (what torch.compile was given), "compile_ns"
  // (before the first step). all_reduce: "numel". Of published figures: "ranks_behind_times",
  // "phases_synchronised", "copies_timed", "replicas_start_equal".
  Fields facts;
  Provenance provenance;
  Fields link;  // optional: what is known of the link between ranks; "limit_bytes_per_second"
};

// One line, without the newline at its end. Bytes that are not UTF-8 are replaced.
std::string ToJsonLine(const Record& record);

// A record, or the reason why the line is none: one line of text.
using ParseResult = std::variant<Record, std::string>;

// `line` without its newline. Names that are not in the schema are skipped; of those that are, "schema",
// "experiment", "run_id", "rank", "world_size", "config" and "samples" must be there.
ParseResult ParseRecord(std::string_view line);

// Appends the records of one rank to its file.
class RecordWriter {
 public:
  // Creates `dir` and the directories above it. Throws InvalidInput, naming the path and the system's reason,
  // if that or opening the file fails.
  RecordWriter(const std::string& dir, std::string_view experiment, std::string_view run_id, int64_t rank);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Returns when the line is on disk, so a crash loses at most the line being written. Throws
  // std::runtime_error with the path and the system's reason.
  void Write(const Record& record);

  // Where the next line will begin.
  int64_t end_bytes() const { return end_bytes_; }
  // Puts `records` in the place of what lies from `begin_bytes` on. A process that is killed meanwhile leaves
  // the one or the other. Throws like Write.
  void Rewrite(int64_t begin_bytes, std::span<const Record> records);

  const std::string& path() const { return path_; }

 private:
  void WriteAt(int64_t begin_bytes, std::string_view text);

  std::string path_;
  int file_ = -1;
  int64_t end_bytes_ = 0;
};

// The time in UTC and four random hexadecimal digits: "20261121T101500-4f2a".
std::string NewRunId();

// "2026-11-21T10:15:00Z"
std::string NowUtc();

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_RECORD_H_
