#ifndef GRADSYNC_BENCH_RECORDS_SCHEMA_H_
#define GRADSYNC_BENCH_RECORDS_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// All names that may stand in a record. The reader checks types against this table; the tests of programs
// check that what they write is in it, and that they write what it says is always there.
namespace gradsync::bench {

// An object in a record; kTop: the record itself, or a continuation line.
enum class Part { kTop, kConfig, kSamples, kMoments, kChecks, kFacts, kProvenance, kLink, kPublished };

// kNumber: whole or not, or null (NaN). kKnown: a whole number, or the text "unknown".
enum class Type { kBool, kInt, kNumber, kText, kKnown, kInts, kObject, kObjects };

enum class Presence { kSometimes, kAlways };

struct SchemaName {
  Part part;
  std::string_view name;  // "*": anything, in its place
  Type type;
  std::string_view writers;  // experiments, and "import"
  Presence presence;         // kAlways: in each record that these programs have written to its end
  std::string_view meaning;
};

inline constexpr std::string_view kAllWriters = "all_reduce ddp compare import";
inline constexpr std::string_view kBenchmarks = "all_reduce ddp compare";
inline constexpr std::string_view kTrainings = "ddp compare";

inline constexpr SchemaName kSchema[] = {
    {Part::kTop, "schema", Type::kText, kAllWriters, Presence::kAlways, "\"gradsync.record/2\""},
    {Part::kTop, "record", Type::kInt, kBenchmarks, Presence::kAlways, "its number in its file, from 0"},
    {Part::kTop, "of", Type::kInt, kTrainings, Presence::kSometimes,
     "of a continuation line: the number of the record that it adds to"},
    {Part::kTop, "experiment", Type::kText, kAllWriters, Presence::kAlways, "which program's"},
    {Part::kTop, "run_id", Type::kText, kAllWriters, Presence::kAlways,
     "the same on all ranks and for all configurations of a launch"},
    {Part::kTop, "time_utc", Type::kText, kAllWriters, Presence::kAlways, "when it began"},
    {Part::kTop, "rank", Type::kInt, kAllWriters, Presence::kAlways, "whose samples these are"},
    {Part::kTop, "world_size", Type::kInt, kAllWriters, Presence::kAlways, "number of ranks"},
    {Part::kTop, "config", Type::kObject, kAllWriters, Presence::kAlways, "what tells it from others"},
    {Part::kTop, "samples", Type::kObject, kAllWriters, Presence::kAlways, "a number for each timed step"},
    {Part::kTop, "moments", Type::kObject, kTrainings, Presence::kSometimes,
     "of each timed step's collectives: steps x buckets, row by row"},
    {Part::kTop, "buckets", Type::kObjects, kAllWriters, Presence::kAlways,
     "what is sent together, in that order: \"bytes\", \"tensors\""},
    {Part::kTop, "checks", Type::kObject, kAllWriters, Presence::kAlways, "whether the numbers were right"},
    {Part::kTop, "facts", Type::kObject, kAllWriters, Presence::kAlways, "what else is known"},
    {Part::kTop, "provenance", Type::kObject, kAllWriters, Presence::kAlways, "where, on what, from what"},
    {Part::kTop, "link", Type::kObject, kAllWriters, Presence::kSometimes, "between ranks"},
    {Part::kTop, "published", Type::kObject, "import", Presence::kSometimes,
     "statistics of samples that nobody has any more, by the samples' names"},

    {Part::kConfig, "backend", Type::kText, kAllWriters, Presence::kAlways, "what moved the data"},
    {Part::kConfig, "device", Type::kText, kAllWriters, Presence::kAlways, "cpu or cuda"},
    {Part::kConfig, "dtype", Type::kText, kAllWriters, Presence::kAlways, "of activations, or elements"},
    {Part::kConfig, "threads_per_rank", Type::kInt, kBenchmarks, Presence::kAlways, "that compute"},
    {Part::kConfig, "comm_threads", Type::kInt, kBenchmarks, Presence::kAlways, "that communicate"},
    {Part::kConfig, "placement", Type::kText, kBenchmarks, Presence::kAlways,
     "none or pin; the only name here that may differ between ranks"},
    {Part::kConfig, "seed", Type::kInt, kBenchmarks, Presence::kAlways, "of this launch"},
    {Part::kConfig, "collective", Type::kText, "all_reduce", Presence::kAlways,
     "all_reduce, reduce_scatter, all_gather or broadcast; missing: all_reduce"},
    {Part::kConfig, "op", Type::kText, "all_reduce import", Presence::kSometimes, "sum or mean"},
    {Part::kConfig, "size_bytes", Type::kInt, "all_reduce import", Presence::kSometimes,
     "of the whole vector: what reduce_scatter takes, what all_gather gives"},
    {Part::kConfig, "iterations", Type::kInt, "all_reduce", Presence::kAlways, "timed"},
    {Part::kConfig, "warmup_iterations", Type::kInt, "all_reduce", Presence::kAlways, "before them"},
    {Part::kConfig, "model", Type::kText, "ddp compare import", Presence::kSometimes, "by name"},
    {Part::kConfig, "strategy", Type::kText, "ddp compare import", Presence::kSometimes, "by name"},
    {Part::kConfig, "batch_size", Type::kInt, "ddp compare import", Presence::kSometimes, "of one rank"},
    {Part::kConfig, "bucket_bytes", Type::kInt, "ddp compare import", Presence::kSometimes, "asked for"},
    {Part::kConfig, "order", Type::kText, "ddp compare import", Presence::kSometimes,
     "interleaved or blocks"},
    {Part::kConfig, "warmup_steps", Type::kInt, "ddp compare import", Presence::kSometimes, "untimed"},
    {Part::kConfig, "steps", Type::kInt, "ddp compare import", Presence::kSometimes,
     "timed; with a precision at least"},
    {Part::kConfig, "precision", Type::kNumber, kTrainings, Presence::kSometimes,
     "of differences to the first strategy, as a part of its step, at which to stop"},
    {Part::kConfig, "max_steps", Type::kInt, kTrainings, Presence::kSometimes, "timed, at most"},
    {Part::kConfig, "optimizer", Type::kText, "ddp compare import", Presence::kSometimes,
     "adamw or sgd; import: also none"},
    {Part::kConfig, "learning_rate", Type::kNumber, kTrainings, Presence::kAlways, "the optimizer's"},
    {Part::kConfig, "traced", Type::kBool, kTrainings, Presence::kAlways, "whether steps wrote a trace too"},
    {Part::kConfig, "data", Type::kText, kTrainings, Presence::kAlways, "uniform, corpus or batch_file"},
    {Part::kConfig, "weights", Type::kText, "ddp", Presence::kAlways, "random or file"},
    {Part::kConfig, "seq_len", Type::kInt, "ddp compare import", Presence::kSometimes, "of transformers"},
    {Part::kConfig, "num_layers", Type::kInt, kTrainings, Presence::kSometimes, "of transformers"},
    {Part::kConfig, "d_model", Type::kInt, kTrainings, Presence::kSometimes, "of transformers"},
    {Part::kConfig, "d_ff", Type::kInt, kTrainings, Presence::kSometimes, "of transformers"},
    {Part::kConfig, "num_heads", Type::kInt, kTrainings, Presence::kSometimes, "of transformers"},
    {Part::kConfig, "vocab_size", Type::kInt, kTrainings, Presence::kSometimes, "of transformers"},
    {Part::kConfig, "image_size", Type::kInt, "compare", Presence::kSometimes, "pixels on each side"},
    {Part::kConfig, "width", Type::kInt, "compare", Presence::kSometimes, "channels of the first layers"},
    {Part::kConfig, "units", Type::kText, "compare import", Presence::kSometimes, "bytes or published"},
    {Part::kConfig, "buffer_elements", Type::kInt, "compare import", Presence::kSometimes,
     "the size on the label, of which bucket_bytes is what it means to the strategy"},

    {Part::kSamples, "position", Type::kInts, kBenchmarks, Presence::kAlways,
     "index in the launch's own order over all its configurations"},
    {Part::kSamples, "time_ns", Type::kInts, "all_reduce", Presence::kAlways, "from a barrier to its end"},
    {Part::kSamples, "back_to_back_ns", Type::kInts, "all_reduce", Presence::kAlways,
     "of each of several in a row, without a barrier between them: their time by their number"},
    {Part::kSamples, "step_ns", Type::kInts, kTrainings, Presence::kAlways,
     "from the step's first work to its last, the optimizer's included"},
    {Part::kSamples, "forward_ns", Type::kInts, kTrainings, Presence::kAlways,
     "with the loss, and the broadcast of buffers where a model has them"},
    {Part::kSamples, "backward_ns", Type::kInts, kTrainings, Presence::kAlways,
     "to the end of the last gradient's computation; missing of peers that average inside of backward"},
    {Part::kSamples, "sync_exposed_ns", Type::kInts, kTrainings, Presence::kAlways,
     "from there until every gradient is averaged; missing likewise"},
    {Part::kSamples, "backward_and_sync_ns", Type::kInts, kTrainings, Presence::kAlways,
     "both together; what a published \"backward\" is whose strategy waits inside it"},
    {Part::kSamples, "optimizer_ns", Type::kInts, kTrainings, Presence::kAlways, "its step"},
    {Part::kSamples, "comm_busy_ns", Type::kInts, kTrainings, Presence::kAlways,
     "the union of the intervals with a collective in flight; missing of peers"},
    {Part::kSamples, "compute_cpu_ns", Type::kInts, kTrainings, Presence::kAlways,
     "processor time of this process in the step, but for communication threads; missing of peers"},
    {Part::kSamples, "communication_cpu_ns", Type::kInts, kTrainings, Presence::kAlways,
     "of the threads that joining the group started; missing of peers"},
    {Part::kSamples, "forward.*_ns", Type::kInts, kTrainings, Presence::kSometimes, "profile: operations"},
    {Part::kSamples, "backward.*_ns", Type::kInts, kTrainings, Presence::kSometimes, "profile: operations"},
    {Part::kSamples, "sync.*_ns", Type::kInts, kTrainings, Presence::kSometimes, "profile: the wait"},
    {Part::kSamples, "optimizer.*_ns", Type::kInts, kTrainings, Presence::kSometimes, "profile: its step"},

    {Part::kMoments, "ready_ns", Type::kInts, kTrainings, Presence::kSometimes,
     "from the step's begin until the bucket's last gradient was complete; -1, here and below: not known"},
    {Part::kMoments, "issued_ns", Type::kInts, kTrainings, Presence::kSometimes,
     "from there until its collective was issued"},
    {Part::kMoments, "started_ns", Type::kInts, kTrainings, Presence::kSometimes,
     "from there until a communication thread took it up"},
    {Part::kMoments, "ended_ns", Type::kInts, kTrainings, Presence::kSometimes,
     "from there until it was done"},

    {Part::kChecks, "reference", Type::kText, kTrainings, Presence::kAlways, "single_process or none"},
    {Part::kChecks, "grad_rel_error", Type::kNumber, kTrainings, Presence::kAlways,
     "relative distance of gradients from the reference's"},
    {Part::kChecks, "param_rel_error", Type::kNumber, kTrainings, Presence::kAlways,
     "of parameters after the step"},
    {Part::kChecks, "grads_equal", Type::kBool, kTrainings, Presence::kAlways, "within the tolerance"},
    {Part::kChecks, "params_equal", Type::kBool, kTrainings, Presence::kAlways, "within the tolerance"},
    {Part::kChecks, "replicas_equal", Type::kBool, kTrainings, Presence::kAlways, "bit by bit"},
    {Part::kChecks, "tolerance", Type::kNumber, kTrainings, Presence::kAlways, "of those errors"},
    {Part::kChecks, "worst_grad", Type::kText, kTrainings, Presence::kAlways, "the tensor's name"},
    {Part::kChecks, "worst_param", Type::kText, kTrainings, Presence::kAlways, "the tensor's name"},
    {Part::kChecks, "wrong_elements", Type::kInt, "all_reduce", Presence::kAlways, "of the result"},
    {Part::kChecks, "checked_elements", Type::kInt, "all_reduce", Presence::kAlways, "of the result"},

    {Part::kFacts, "launcher", Type::kText, kBenchmarks, Presence::kAlways, "who started the ranks"},
    {Part::kFacts, "local_size", Type::kInt, kBenchmarks, Presence::kAlways, "ranks on this host"},
    {Part::kFacts, "launch_set", Type::kText, kBenchmarks, Presence::kAlways,
     "run_id of the first launch of those that belong together (--repeats)"},
    {Part::kFacts, "launch", Type::kInt, kBenchmarks, Presence::kAlways, "which of them, from 0"},
    {Part::kFacts, "launches", Type::kInt, kBenchmarks, Presence::kAlways, "how many were planned"},
    {Part::kFacts, "collectives_in_flight", Type::kInt, kBenchmarks, Presence::kAlways, "at most"},
    {Part::kFacts, "compute_cpus", Type::kText, kBenchmarks, Presence::kSometimes, "pinned: which"},
    {Part::kFacts, "communication_cpus", Type::kText, kBenchmarks, Presence::kSometimes,
     "pinned: which, or any"},
    {Part::kFacts, "gpu_uuid", Type::kText, kBenchmarks, Presence::kSometimes, "of a GPU"},
    {Part::kFacts, "gpu_pci_bus_id", Type::kText, kBenchmarks, Presence::kSometimes, "of a GPU"},
    {Part::kFacts, "gpu_ordinal", Type::kInt, kBenchmarks, Presence::kSometimes, "of a GPU"},
    {Part::kFacts, "ranks_per_gpu", Type::kInt, kBenchmarks, Presence::kSometimes, "of a GPU"},
    {Part::kFacts, "nccl_log_prefix", Type::kText, kBenchmarks, Presence::kSometimes, "in NCCL's own logs"},
    {Part::kFacts, "numel", Type::kInt, "all_reduce", Presence::kAlways, "elements of the whole vector"},
    {Part::kFacts, "in_a_row", Type::kInt, "all_reduce", Presence::kAlways,
     "collectives, see back_to_back_ns"},
    {Part::kFacts, "num_parameters", Type::kInt, kTrainings, Presence::kAlways, "of the model"},
    {Part::kFacts, "num_tensors", Type::kInt, kTrainings, Presence::kAlways, "that they are in"},
    {Part::kFacts, "gradient_bytes", Type::kInt, "ddp compare import", Presence::kSometimes,
     "of all gradients"},
    {Part::kFacts, "tokens_per_step", Type::kInt, kTrainings, Presence::kSometimes, "of all ranks"},
    {Part::kFacts, "images_per_step", Type::kInt, kTrainings, Presence::kSometimes, "of all ranks"},
    {Part::kFacts, "flops_per_step", Type::kNumber, kTrainings, Presence::kAlways,
     "what forward and backward of one rank's batch have to compute"},
    {Part::kFacts, "peak_flops_per_second", Type::kNumber, kTrainings, Presence::kAlways,
     "what all ranks together compute at best, all at once"},
    {Part::kFacts, "peak_flops_source", Type::kText, kTrainings, Presence::kAlways, "how that is known"},
    {Part::kFacts, "allocations_in_timed_steps", Type::kKnown, kTrainings, Presence::kAlways,
     "that the memory's source was asked for"},
    {Part::kFacts, "peak_bytes_in_use", Type::kKnown, kTrainings, Presence::kAlways,
     "in the timed steps, on the device"},
    {Part::kFacts, "bytes_held", Type::kKnown, kTrainings, Presence::kAlways, "from system or driver"},
    {Part::kFacts, "strategies_in_memory", Type::kInt, kTrainings, Presence::kAlways,
     "whose buffers are in those"},
    {Part::kFacts, "compiled", Type::kText, kTrainings, Presence::kSometimes, "what torch.compile was given"},
    {Part::kFacts, "compile_ns", Type::kInt, kTrainings, Presence::kSometimes, "before the first step"},
    {Part::kFacts, "*.calls", Type::kNumber, kTrainings, Presence::kSometimes, "profile: per step"},
    {Part::kFacts, "*.flops", Type::kNumber, kTrainings, Presence::kSometimes, "profile: per step"},
    {Part::kFacts, "*.bytes", Type::kNumber, kTrainings, Presence::kSometimes, "profile: per step"},
    {Part::kFacts, "*.limit_ns", Type::kNumber, kTrainings, Presence::kSometimes, "profile: per step"},
    {Part::kFacts, "limit_ns", Type::kNumber, kTrainings, Presence::kSometimes, "profile: of the step"},
    {Part::kFacts, "rank_peak_flops_per_second", Type::kNumber, kTrainings, Presence::kSometimes,
     "profile: what its limits count with"},
    {Part::kFacts, "rank_peak_bytes_per_second", Type::kNumber, kTrainings, Presence::kSometimes,
     "profile: what its limits count with"},
    {Part::kFacts, "rank_peak_bytes_source", Type::kText, kTrainings, Presence::kSometimes,
     "profile: how that is known"},
    {Part::kFacts, "ranks_behind_times", Type::kText, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "step_covers", Type::kText, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "sync_covers", Type::kText, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "bucket_unit", Type::kText, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "phases_synchronised", Type::kBool, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "copies_timed", Type::kBool, "import", Presence::kSometimes, "of figures"},
    {Part::kFacts, "replicas_start_equal", Type::kBool, "import", Presence::kSometimes, "of figures"},

    {Part::kProvenance, "gradsync_commit", Type::kText, kAllWriters, Presence::kAlways, "or unknown"},
    {Part::kProvenance, "dirty", Type::kBool, kAllWriters, Presence::kAlways,
     "whether files differed from the commit, or may have"},
    {Part::kProvenance, "host", Type::kText, kAllWriters, Presence::kAlways, "its name"},
    {Part::kProvenance, "os", Type::kText, kAllWriters, Presence::kAlways, "its name"},
    {Part::kProvenance, "kernel", Type::kText, kAllWriters, Presence::kAlways, "with its release"},
    {Part::kProvenance, "cpu_model", Type::kText, kAllWriters, Presence::kAlways, "as it names itself"},
    {Part::kProvenance, "cpu_count", Type::kInt, kAllWriters, Presence::kAlways, "that it may use"},
    {Part::kProvenance, "memory_bytes", Type::kInt, kAllWriters, Presence::kAlways, "the host's"},
    {Part::kProvenance, "gpu", Type::kText, kAllWriters, Presence::kAlways, "empty: none was used"},
    {Part::kProvenance, "compiler", Type::kText, kAllWriters, Presence::kAlways, "with its version"},
    {Part::kProvenance, "build", Type::kText, kAllWriters, Presence::kAlways, "opt or dbg, +asan, +tsan"},
    {Part::kProvenance, "libraries", Type::kObject, kAllWriters, Presence::kAlways, "their versions"},
    {Part::kProvenance, "command_line", Type::kText, kAllWriters, Presence::kAlways, "as a shell takes it"},
    {Part::kProvenance, "clock", Type::kText, kAllWriters, Presence::kAlways, "what samples are"},

    {Part::kLink, "kind", Type::kText, kBenchmarks, Presence::kAlways,
     "loopback, veth, ethernet, infiniband, memory, other; none: one rank, or threads"},
    {Part::kLink, "interface", Type::kText, kBenchmarks, Presence::kSometimes, "its name"},
    {Part::kLink, "rate_bits_per_second", Type::kInt, kBenchmarks, Presence::kSometimes,
     "what the system says of it"},
    {Part::kLink, "latency_ns", Type::kInt, kBenchmarks, Presence::kSometimes,
     "median all-reduce of 8 bytes, in a short probe before the run, on this rank"},
    {Part::kLink, "bandwidth_bytes_per_second", Type::kNumber, kBenchmarks, Presence::kSometimes,
     "bus bandwidth of the fastest all-reduce of 8 MiB in that probe"},
    {Part::kLink, "limit_bytes_per_second", Type::kNumber, "import", Presence::kSometimes,
     "more than any link of the kind carries"},

    {Part::kPublished, "*_ns", Type::kNumber, "import", Presence::kSometimes, "a statistic"},
    {Part::kPublished, "n", Type::kInt, "import", Presence::kSometimes, "steps behind it"},
    {Part::kPublished, "printed_*", Type::kNumber, "import", Presence::kSometimes, "printed beside it"},
};

// The values of `record` that have another type than the schema's, each in a line: "\"batch_size\" is a text,
// expected a whole number".
std::vector<std::string> WrongTypes(const Record& record);

// What is wrong about a record that its program has written to its end: the same, names that the schema does
// not have, and names that are missing.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_SCHEMA_H_
