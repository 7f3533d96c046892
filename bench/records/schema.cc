#include "bench/records/schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using enum Part;
using enum Type;
using enum Presence;
using enum Scope;

constexpr std::string_view kAll = "all_reduce ddp import";
constexpr std::string_view kBenchmarks = "all_reduce ddp";
constexpr std::string_view kTraining = "ddp";
constexpr std::string_view kLearning = "convergence";

constexpr SchemaName kSchema[] = {
    {kTop, "schema", kText, kAll, kAlways, "\"gradsync.record/3\""},
    {kTop, "record", kInt, kBenchmarks, kAlways, "its number in its file, from 0"},
    {kTop, "of", kInt, kTraining, kSometimes,
     "of a continuation line: the number of the record that it adds to"},
    {kTop, "experiment", kText, kAll, kAlways, "which program's"},
    {kTop, "run_id", kText, kAll, kAlways, "the same on all ranks and for all configurations of a launch"},
    {kTop, "time_utc", kText, kAll, kAlways, "when it began"},
    {kTop, "rank", kInt, kAll, kAlways, "whose samples these are"},
    {kTop, "world_size", kInt, kAll, kAlways, "number of ranks"},
    {kTop, "config", kObject, kAll, kAlways, "what tells it from others"},
    {kTop, "samples", kObject, kAll, kAlways, "a number for each timed step"},
    {kTop, "moments", kObject, kTraining, kSometimes,
     "of each timed step's collectives: steps x buckets, row by row"},
    {kTop, "buckets", kObjects, kAll, kAlways,
     "what is sent together, in that order: \"bytes\" (of the whole vector: of gradients that an all-reduce "
     "sums, of the rows of all ranks that an all-gather brings together), \"tensors\""},
    {kTop, "checks", kObject, kAll, kAlways, "whether the numbers were right"},
    {kTop, "facts", kObject, kAll, kAlways, "what else is known"},
    {kTop, "provenance", kObject, kAll, kAlways, "where, on what, from what"},
    {kTop, "link", kObject, kAll, kSometimes, "between ranks"},
    {kTop, "published", kObject, "import", kSometimes,
     "statistics of samples that nobody has any more, by the samples' names"},

    {kConfig, "backend", kText, kAll, kAlways, "what moved the data; none of a strategy that sends nothing",
     kVariant},
    {kConfig, "device", kText, kAll, kAlways, "cpu or cuda", kCell},
    {kConfig, "dtype", kText, kAll, kAlways, "of activations, or elements", kCell},
    {kConfig, "threads_per_rank", kInt, kBenchmarks, kAlways, "that compute", kCell},
    {kConfig, "comm_threads", kInt, kBenchmarks, kAlways, "that communicate", kCell},
    {kConfig, "placement", kText, kBenchmarks, kAlways,
     "none or pin; the only name here that may differ between ranks", kRun},
    {kConfig, "seed", kInt, kBenchmarks, kAlways, "of this launch", kRun},
    {kConfig, "link_rate", kInt, kBenchmarks, kSometimes,
     "bits per second that the link between hosts was limited to in each direction", kCell},
    {kConfig, "collective", kText, "all_reduce", kAlways,
     "all_reduce, reduce_scatter, all_gather or broadcast", kCell},
    {kConfig, "op", kText, "all_reduce import", kSometimes, "sum or mean", kCell},
    {kConfig, "size_bytes", kInt, "all_reduce import", kSometimes,
     "of the whole vector: what reduce_scatter takes, what all_gather gives", kCell},
    {kConfig, "iterations", kInt, "all_reduce", kAlways, "timed", kRun},
    {kConfig, "warmup_iterations", kInt, "all_reduce", kAlways, "before them", kRun},
    {kConfig, "model", kText, "ddp import", kSometimes, "by name", kCell},
    {kConfig, "variant", kText, "ddp import", kSometimes,
     "strategy[:option=value,...][@backend], with the options that differ from the defaults", kVariant},
    {kConfig, "strategy", kText, "ddp import", kSometimes, "by name", kVariant},
    {kConfig, "batch_size", kInt, "ddp import", kSometimes, "of one rank", kCell},
    {kConfig, "accumulation_steps", kInt, "ddp convergence", kSometimes,
     "such batches in a step, if there are several", kCell},
    {kConfig, "bucket_bytes", kInt, "ddp import", kSometimes, "capacity of a bucket", kVariant},
    {kConfig, "bucket_elements", kInt, "ddp import", kSometimes,
     "the same as it was given, in elements of gradients", kVariant},
    {kConfig, "published_size", kInt, "ddp import", kSometimes,
     "the same as it was given, in the published experiment's unit: bytes for core, elements for the others",
     kVariant},
    {kConfig, "order", kText, "ddp import", kSometimes, "interleaved or blocks", kCell},
    {kConfig, "warmup_steps", kInt, "ddp import", kSometimes, "untimed", kRun},
    {kConfig, "steps", kInt, "ddp import", kSometimes, "timed", kRun},
    {kConfig, "time", kText, kTraining, kSometimes, "spent on timed steps, instead of a number of them",
     kRun},
    {kConfig, "precision", kNumber, kTraining, kSometimes,
     "part of the baseline's step: once differences are known to +- that, no launch follows", kRun},
    {kConfig, "optimizer", kText, "ddp import", kSometimes, "adamw or sgd; import: also none", kCell},
    {kConfig, "learning_rate", kNumber, kTraining, kAlways, "the optimizer's", kCell},
    {kConfig, "traced", kBool, kTraining, kAlways, "whether steps wrote a trace too", kCell},
    {kConfig, "data", kText, kTraining, kAlways, "uniform or corpus", kCell},
    {kConfig, "weights", kText, kTraining, kAlways, "random or file", kCell},
    {kConfig, "seq_len", kInt, "ddp import", kSometimes, "of transformers", kCell},
    {kConfig, "num_layers", kInt, kTraining, kSometimes, "of transformers", kCell},
    {kConfig, "d_model", kInt, kTraining, kSometimes, "of transformers", kCell},
    {kConfig, "d_ff", kInt, kTraining, kSometimes, "of transformers", kCell},
    {kConfig, "num_heads", kInt, kTraining, kSometimes, "of transformers", kCell},
    {kConfig, "vocab_size", kInt, kTraining, kSometimes, "of transformers", kCell},
    {kConfig, "image_size", kInt, kTraining, kSometimes, "pixels on each side", kCell},
    {kConfig, "width", kInt, kTraining, kSometimes, "channels of the first layers", kCell},

    {kConfig, "lr_schedule", kText, kLearning, kSometimes, "of the learning rate, unless it is constant",
     kCell},
    {kConfig, "decay", kText, kLearning, kSometimes, "what decays, unless it is all: matrices", kCell},
    {kConfig, "text", kText, kLearning, kAlways, "what was learnt, by name", kCell},
    {kConfig, "text_sha256", kText, kLearning, kAlways, "of all of it, and of which part is held out", kCell},
    {kConfig, "training_steps", kInt, kLearning, kAlways, "of each variant from each seed, in all", kCell},
    {kConfig, "evaluate_every", kInt, kLearning, kAlways, "steps, after which the held-out loss is measured",
     kCell},
    {kConfig, "held_out_windows", kInt, kLearning, kAlways, "sequences, by which a model is judged", kCell},
    {kConfig, "trial_seed", kInt, kLearning, kAlways, "of initial weights and batches", kVariant},

    {kSamples, "position", kInts, kBenchmarks, kAlways,
     "index in the launch's own order over all its configurations"},
    {kSamples, "time_ns", kInts, "all_reduce", kAlways, "from a barrier to its end"},
    {kSamples, "back_to_back_ns", kInts, "all_reduce", kAlways,
     "of each of several in a row, without a barrier between them: their time by their number"},
    {kSamples, "begin_ns", kInts, kTraining, kAlways,
     "when this rank left the barrier before the step, on its host's steady clock: compares with other ranks "
     "of the host and boot only; missing of peers"},
    {kSamples, "begin_step_ns", kInts, kTraining, kSometimes,
     "the strategy's work before forward (BeginStep); missing of peers"},
    {kSamples, "hooks_ns", kInts, kTraining, kSometimes,
     "the strategy's work in hooks during backward (OnGradReady); missing of peers, and on a GPU, where "
     "backward_ns contains it"},
    {kSamples, "others_cpu_ns", kInts, kTraining, kSometimes,
     "processor time that all but the job's ranks used on this host during a step, or during all steps of a "
     "period, by the system's ticks of about 10 ms: it may be off by that, and negative"},
    {kSamples, "step_ns", kInts, kTraining, kAlways,
     "from the step's first work to its last, the optimizer's included"},
    {kSamples, "forward_ns", kInts, kTraining, kAlways,
     "with the loss, and the broadcast of buffers where a model has them; without begin_step_ns"},
    {kSamples, "backward_ns", kInts, kTraining, kAlways,
     "to the end of the last gradient's computation, without hooks_ns; missing of peers that average inside "
     "of "
     "backward"},
    {kSamples, "sync_exposed_ns", kInts, kTraining, kAlways,
     "from there until every gradient is averaged, and, of a strategy that communicates while it updates, "
     "what "
     "the update waited; missing likewise"},
    {kSamples, "backward_and_sync_ns", kInts, kTraining, kAlways,
     "both together, and hooks_ns; what a published \"backward\" is whose strategy waits inside it"},
    {kSamples, "optimizer_ns", kInts, kTraining, kAlways, "its step, without waits"},
    {kSamples, "comm_busy_ns", kInts, kTraining, kAlways,
     "the union of the intervals with a collective in flight; missing of peers"},
    {kSamples, "compute_cpu_ns", kInts, kTraining, kAlways,
     "processor time of this process in the step, but for communication threads; missing of peers"},
    {kSamples, "communication_cpu_ns", kInts, kTraining, kAlways,
     "of the threads that joining the group started; missing of peers"},
    {kSamples, "forward.*_ns", kInts, kTraining, kSometimes, "profile: operations"},
    {kSamples, "backward.*_ns", kInts, kTraining, kSometimes, "profile: operations"},
    {kSamples, "sync.*_ns", kInts, kTraining, kSometimes, "profile: the wait"},
    {kSamples, "optimizer.*_ns", kInts, kTraining, kSometimes, "profile: its step"},

    {kSamples, "own_ns", kInts, kLearning, kAlways, "begin_step_ns and hooks_ns together"},
    {kSamples, "training_loss_nano", kInts, kLearning, kAlways,
     "1e-9 nats for each byte of the step's batches, before the update, mean over ranks"},
    {kSamples, "held_out_loss_nano", kInts, kLearning, kAlways,
     "the same of the held-out text after the step; -1: not measured"},

    {kMoments, "ready_ns", kInts, kTraining, kSometimes,
     "from the step's begin until the bucket's last gradient was complete; -1, here and below: not known"},
    {kMoments, "issued_ns", kInts, kTraining, kSometimes, "from there until its collective was issued"},
    {kMoments, "started_ns", kInts, kTraining, kSometimes,
     "from there until a communication thread took it up"},
    {kMoments, "ended_ns", kInts, kTraining, kSometimes, "from there until it was done"},

    {kChecks, "reference", kText, kTraining, kAlways,
     "single_process; equation, of strategies that are not exact; or none"},
    {kChecks, "grad_rel_error", kNumber, kTraining, kAlways,
     "relative distance of gradients from the reference's"},
    {kChecks, "param_rel_error", kNumber, kTraining, kAlways,
     "of parameters from what the optimizer makes of these gradients, or of their change from its "
     "equation's"},
    {kChecks, "grads_equal", kBool, kTraining, kAlways, "within the tolerance"},
    {kChecks, "params_equal", kBool, kTraining, kAlways, "within the tolerance"},
    {kChecks, "replicas_equal", kBool, kTraining, kAlways, "bit by bit"},
    {kChecks, "tolerance", kNumber, kTraining, kAlways, "of those errors"},
    {kChecks, "worst_grad", kText, kTraining, kAlways, "the tensor's name"},
    {kChecks, "worst_param", kText, kTraining, kAlways, "the tensor's name"},
    {kChecks, "spot_checks", kInt, kTraining, kSometimes,
     "timed steps, drawn at random, after which ranks compared their gradients bit by bit"},
    {kChecks, "equal_spot_checks", kInt, kTraining, kSometimes, "after which they were equal"},
    {kChecks, "wrong_elements", kInt, "all_reduce", kAlways, "of the result"},
    {kChecks, "checked_elements", kInt, "all_reduce", kAlways, "of the result"},

    {kFacts, "launcher", kText, kBenchmarks, kAlways, "who started the ranks"},
    {kFacts, "local_size", kInt, kBenchmarks, kAlways, "ranks on this host"},
    {kFacts, "hosts", kText, kBenchmarks, kSometimes, "of hierarchical: how many, and of how many ranks"},
    {kFacts, "launch_set", kText, kBenchmarks, kAlways,
     "run_id of the first launch of those that belong together (--repeats)"},
    {kFacts, "launch", kInt, kBenchmarks, kAlways, "which of them, from 0"},
    {kFacts, "launches", kInt, kBenchmarks, kAlways, "how many were planned"},
    {kFacts, "collectives_in_flight", kInt, kBenchmarks, kAlways, "at most"},
    {kFacts, "compute_cpus", kText, kBenchmarks, kSometimes, "pinned: which"},
    {kFacts, "communication_cpus", kText, kBenchmarks, kSometimes, "pinned: which, or any"},
    {kFacts, "gpu_uuid", kText, kBenchmarks, kSometimes, "of a GPU"},
    {kFacts, "ranks_per_gpu", kInt, kBenchmarks, kSometimes, "of a GPU"},
    {kFacts, "nccl_log_prefix", kText, kBenchmarks, kSometimes, "in NCCL's own logs"},
    {kFacts, "num_parameters", kInt, kTraining, kAlways, "of the model"},
    {kFacts, "num_tensors", kInt, kTraining, kAlways, "that they are in"},
    {kFacts, "gradient_bytes", kInt, "ddp import", kSometimes, "of all gradients"},
    {kFacts, "floor", kText, "ddp import", kSometimes,
     "the strategy that the cost of this one is measured from; a floor's is itself"},
    {kFacts, "agreement", kText, "ddp import", kSometimes,
     "exact, lossy or drifts: whether gradients are a single process's, nearly, or replicas part"},
    {kFacts, "overlaps", kBool, "ddp import", kSometimes, "whether it communicates during backward"},
    {kFacts, "period", kInt, "ddp import", kSometimes,
     "every how many steps the strategy synchronises, if not in each: a sample is the mean of so many"},
    {kFacts, "delay_ns", kInt, "ddp", kSometimes, "by which the benchmark made each step longer, on purpose"},
    {kFacts, "peer", kText, kTraining, kSometimes, "pytorch: the framework that took the steps"},
    {kFacts, "twin", kText, kTraining, kSometimes, "of peers: gradsync's strategy that it compares with"},
    {kFacts, "tokens_per_step", kInt, kTraining, kSometimes, "of all ranks"},
    {kFacts, "images_per_step", kInt, kTraining, kSometimes, "of all ranks"},
    {kFacts, "flops_per_step", kNumber, kTraining, kAlways,
     "what forward and backward of one rank's batch have to compute"},
    {kFacts, "peak_flops_per_second", kNumber, kTraining, kAlways,
     "what all ranks together compute at best, all at once"},
    {kFacts, "allocations_in_timed_steps", kKnown, kTraining, kAlways,
     "that the memory's source was asked for"},
    {kFacts, "peak_bytes_in_use", kKnown, kTraining, kAlways,
     "in the timed steps, on the device: what this variant needs"},
    {kFacts, "order0_bits", kNumber, kLearning, kAlways,
     "entropy of the held-out text's bytes, each for itself"},
    {kFacts, "xz_bits", kNumber, kLearning, kAlways,
     "that xz needs for each byte of the held-out text behind the training text"},
    {kFacts, "training_bytes", kInt, kLearning, kAlways, "of the text"},
    {kFacts, "held_out_bytes", kInt, kLearning, kAlways, "of the text"},
    {kFacts, "first_step", kInt, kLearning, kAlways, "steps that a checkpoint had taken before; 0: none"},
    {kFacts, "sent_bytes_per_step", kNumber, "ddp convergence", kSometimes,
     "of each rank, by the fastest algorithms, mean over steps; missing of peers"},
    {kFacts, "bucket_sizes", kText, kTraining, kSometimes, "a peer's: the bytes of its buckets, in order"},
    {kFacts, "compiled", kText, kTraining, kSometimes, "what torch.compile was given"},
    {kFacts, "compile_ns", kInt, kTraining, kSometimes, "before the first step"},
    {kFacts, "ranks_behind_times", kText, "import", kSometimes, "of figures"},
    {kFacts, "phases_synchronised", kBool, "import", kSometimes, "of figures"},
    {kFacts, "copies_timed", kBool, "import", kSometimes, "of figures"},
    {kFacts, "replicas_start_equal", kBool, "import", kSometimes, "of figures"},

    {kProvenance, "gradsync_commit", kText, kAll, kAlways, "or unknown"},
    {kProvenance, "dirty", kBool, kAll, kAlways, "whether files differed from the commit, or may have"},
    {kProvenance, "host", kText, kAll, kAlways, "its name"},
    {kProvenance, "os", kText, kAll, kAlways, "its name"},
    {kProvenance, "kernel", kText, kAll, kAlways, "with its release"},
    {kProvenance, "cpu_model", kText, kAll, kAlways, "as it names itself"},
    {kProvenance, "cpu_count", kInt, kAll, kAlways, "that it may use"},
    {kProvenance, "memory_bytes", kInt, kAll, kAlways, "the host's"},
    {kProvenance, "gpu", kText, kAll, kAlways, "empty: none was used"},
    {kProvenance, "compiler", kText, kAll, kAlways, "with its version"},
    {kProvenance, "build", kText, kAll, kAlways, "opt or dbg, +asan, +tsan"},
    {kProvenance, "libraries", kObject, kAll, kAlways, "their versions"},
    {kProvenance, "command_line", kText, kAll, kAlways, "as a shell takes it"},
    {kProvenance, "clock", kText, kAll, kAlways, "what samples are"},

    {kLink, "kind", kText, kBenchmarks, kAlways,
     "loopback, veth, ethernet, infiniband, memory, other; none: one rank, or threads"},
    {kLink, "interface", kText, kBenchmarks, kSometimes, "its name"},
    {kLink, "limit_bytes_per_second", kNumber, "import", kSometimes,
     "more than any link of the kind carries"},

    {kPublished, "*_ns", kNumber, "import", kSometimes, "a statistic"},
    {kPublished, "n", kInt, "import", kSometimes, "steps behind it"},
    {kPublished, "printed_*", kNumber, "import", kSometimes, "printed beside it"},
};

bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  return name.size() > before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind);
}

const SchemaName* Find(Part part, std::string_view name) {
  const auto found = std::ranges::find_if(
      kSchema, [&](const SchemaName& entry) { return entry.part == part && Matches(entry.name, name); });
  return found == std::end(kSchema) ? nullptr : found;
}

// Whether it is an option of the configuration's variant, strategy[:option=value,...][@backend].
bool IsOption(std::string_view name, const Fields& config) {
  const std::string variant = config.StringOr("variant", "");
  return variant.find(Join(":", name, "=")) != std::string::npos ||
         variant.find(Join(",", name, "=")) != std::string::npos;
}

// Calls `take(part, name, value)` with every plain value, and `take_ints(part, name)` with every series.
template <class Take, class TakeInts>
void ForEachName(const Record& record, const Take& take, const TakeInts& take_ints) {
  const auto take_all = [&](Part part, const Fields& fields) {
    for (const auto& [name, value] : fields) take(part, name, value);
  };
  take_all(kConfig, record.config);
  take_all(kChecks, record.checks);
  take_all(kFacts, record.facts);
  take_all(kLink, record.link);
  for (const auto& [name, statistics] : record.published) take_all(kPublished, statistics);
  for (const auto& [name, series] : record.samples) take_ints(kSamples, name);
  for (const auto& [name, series] : record.moments) take_ints(kMoments, name);
}

std::string_view TypeOf(const Value& value) {
  constexpr std::string_view kNames[] = {"true or false", "a whole number", "a number", "a text"};
  return kNames[value.index()];
}

// What stands in the place of a wrong value; empty if the value is right.
std::string_view Expected(Type type, const Value& value) {
  const bool is_int = std::holds_alternative<int64_t>(value),
             is_text = std::holds_alternative<std::string>(value);
  switch (type) {
    case kBool:
      return std::holds_alternative<bool>(value) ? "" : "true or false";
    case kInt:
      return is_int ? "" : "a whole number";
    case kNumber:
      return is_int || std::holds_alternative<double>(value) ? "" : "a number";
    case kText:
      return is_text ? "" : "a text";
    case kKnown:
      return is_int || is_text ? "" : "a whole number or \"unknown\"";
    default:
      return "no plain value";
  }
}

}  // namespace

std::span<const SchemaName> Schema() { return kSchema; }

Scope ScopeOf(std::string_view name, const Fields& config) {
  if (IsOption(name, config)) return kVariant;
  const SchemaName* const entry = Find(kConfig, name);
  return entry == nullptr ? kCell : entry->scope;
}

std::vector<std::string> WrongTypes(const Record& record) {
  std::vector<std::string> faults;
  const auto take = [&](Part part, const std::string& name, const Value& value) {
    const SchemaName* const entry = Find(part, name);
    const std::string_view expected = entry == nullptr ? "" : Expected(entry->type, value);
    if (!expected.empty())
      faults.push_back(Join("\"", name, "\" is ", TypeOf(value), ", expected ", expected));
  };
  ForEachName(record, take, [](Part, const std::string&) {});
  return faults;
}

std::vector<std::string> SchemaFaults(const Record& record) {
  std::vector<std::string> faults = WrongTypes(record);
  std::set<std::pair<Part, std::string>> names;
  const auto add = [&](Part part, const std::string& name) {
    names.emplace(part, name);
    const bool is_option = part == kConfig && IsOption(name, record.config);
    if (!is_option && Find(part, name) == nullptr)
      faults.push_back(Join("\"", name, "\" is not in the schema"));
  };
  ForEachName(
      record, [&](Part part, const std::string& name, const Value&) { add(part, name); }, add);
  for (const SchemaName& entry : kSchema) {
    // The others are members, which are always written.
    const bool is_free = entry.part != kTop && entry.part != kProvenance;
    const bool is_written =
        Join(" ", entry.writers, " ").find(Join(" ", record.experiment, " ")) != std::string::npos;
    if (is_free && is_written && entry.presence == kAlways &&
        !names.contains({entry.part, std::string(entry.name)})) {
      faults.push_back(Join("no \"", entry.name, "\""));
    }
  }
  return faults;
}

}  // namespace gradsync::bench
