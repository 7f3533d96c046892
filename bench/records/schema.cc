#include "bench/records/schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/error.h"

namespace gradsync::bench {
namespace {

using enum Scope;

// An object in a record.
enum Part { kConfig, kSamples, kMoments, kChecks, kFacts, kLink, kPublished };

// Of a value; of samples and moments that of each. kNumber: whole or not, or null (NaN). kKnown: a whole
// number, or the text "unknown".
enum Type { kBool, kInt, kNumber, kText, kKnown };  // the first four in the order of Value's alternatives
constexpr std::string_view kTypeNames[] = {"true or false", "a whole number", "a number", "a text",
                                           "a whole number or \"unknown\""};

struct SchemaName {
  Part part;
  std::string_view name;  // "*": anything, in its place
  Type type;
  std::string_view writers;  // the experiments of which every record that was written to its end has it
  std::string_view meaning;
  Scope scope = kCell;  // of a configuration
};

constexpr std::string_view kBenchmarks = "all_reduce ddp";
constexpr std::string_view kTraining = "ddp";
constexpr std::string_view kLearning = "convergence";

constexpr SchemaName kSchema[] = {
    {kConfig, "backend", kText, kBenchmarks, "what moved the data; none of a strategy that sends nothing",
     kVariant},
    {kConfig, "device", kText, kBenchmarks, "cpu or cuda"},
    {kConfig, "dtype", kText, kBenchmarks, "of activations, or elements"},
    {kConfig, "threads_per_rank", kInt, kBenchmarks, "that compute"},
    {kConfig, "comm_threads", kInt, kBenchmarks, "that communicate"},
    {kConfig, "placement", kText, kBenchmarks, "none or pin; may differ between ranks, as no other", kRun},
    {kConfig, "seed", kInt, kBenchmarks, "of this launch", kRun},
    {kConfig, "link_rate", kInt, "", "bits per second to which the link was limited, in each direction"},
    {kConfig, "collective", kText, "all_reduce", "all_reduce, reduce_scatter, all_gather or broadcast"},
    {kConfig, "op", kText, "", "sum or mean"},
    {kConfig, "size_bytes", kInt, "", "of the whole vector: reduce_scatter's input, all_gather's output"},
    {kConfig, "iterations", kInt, "all_reduce", "timed", kRun},
    {kConfig, "warmup_iterations", kInt, "all_reduce", "before them", kRun},
    {kConfig, "model", kText, "", "by name"},
    {kConfig, "variant", kText, "", "strategy[:option=value,...][@backend]", kVariant},
    {kConfig, "strategy", kText, "", "by name", kVariant},
    {kConfig, "batch_size", kInt, "", "of one rank"},
    {kConfig, "accumulation_steps", kInt, "", "such batches in a step, if there are several"},
    {kConfig, "bucket_bytes", kInt, "", "capacity of a bucket", kVariant},
    {kConfig, "bucket_elements", kInt, "", "the same as it was given, in elements", kVariant},
    {kConfig, "published_size", kInt, "", "the same, in bytes for core, in elements for others", kVariant},
    {kConfig, "order", kText, kBenchmarks, "interleaved or blocks"},
    {kConfig, "warmup_steps", kInt, "", "untimed", kRun},
    {kConfig, "steps", kInt, "", "timed", kRun},
    {kConfig, "time", kText, "", "of a launch, for timed steps, instead of a number of them", kRun},
    {kConfig, "precision", kNumber, "", "of the baseline's step: known to +- that, no launch follows", kRun},
    {kConfig, "optimizer", kText, "", "adamw or sgd; of published figures also none"},
    {kConfig, "learning_rate", kNumber, kTraining, "the optimizer's"},
    {kConfig, "traced", kBool, kTraining, "whether steps wrote a trace too"},
    {kConfig, "data", kText, kTraining, "uniform or corpus"},
    {kConfig, "weights", kText, kTraining, "random or file"},
    {kConfig, "seq_len", kInt, "", "of transformers"},
    {kConfig, "num_layers", kInt, "", "of transformers"},
    {kConfig, "d_model", kInt, "", "of transformers"},
    {kConfig, "d_ff", kInt, "", "of transformers"},
    {kConfig, "num_heads", kInt, "", "of transformers"},
    {kConfig, "vocab_size", kInt, "", "of transformers"},
    {kConfig, "image_size", kInt, "", "pixels on each side"},
    {kConfig, "width", kInt, "", "channels of the first layers"},
    {kConfig, "lr_schedule", kText, "", "of the learning rate, unless it is constant"},
    {kConfig, "decay", kText, "", "what decays, unless it is all: matrices"},
    {kConfig, "text", kText, kLearning, "what was learnt, by name"},
    {kConfig, "text_sha256", kText, kLearning, "of all of it, and of which part is held out"},
    {kConfig, "training_steps", kInt, kLearning, "of each variant from each seed, in all"},
    {kConfig, "evaluate_every", kInt, kLearning, "steps, after which the held-out loss is measured"},
    {kConfig, "held_out_windows", kInt, kLearning, "sequences, by which a model is judged"},
    {kConfig, "trial_seed", kInt, kLearning, "of initial weights and batches", kVariant},

    {kSamples, "position", kInt, kBenchmarks, "index in the launch's own order over all its configurations"},
    {kSamples, "time_ns", kInt, "all_reduce", "from a barrier to its end"},
    {kSamples, "back_to_back_ns", kInt, "all_reduce", "mean over several, without barriers between them"},
    {kSamples, "begin_ns", kInt, kTraining,
     "when this rank left the barrier, on its host's steady clock, which ranks of one host and boot share"},
    {kSamples, "begin_step_ns", kInt, "", "the strategy's work before forward (BeginStep); missing of peers"},
    {kSamples, "hooks_ns", kInt, "", "its work in hooks (OnGradReady); of peers and on a GPU in backward_ns"},
    {kSamples, "others_cpu_ns", kInt, "",
     "CPU time of all but the job's ranks on this host in a step or period, in the system's ticks of 10 ms: "
     "may be negative"},
    {kSamples, "step_ns", kInt, kTraining, "from the step's first work to its last, with the optimizer's"},
    {kSamples, "forward_ns", kInt, kTraining, "with the loss and the broadcast of buffers"},
    {kSamples, "backward_ns", kInt, kTraining,
     "to the end of the last gradient's computation, without hooks_ns; missing of peers that average in it"},
    {kSamples, "sync_exposed_ns", kInt, kTraining,
     "until every gradient is averaged, and what an update that communicates waited; missing likewise"},
    {kSamples, "backward_and_sync_ns", kInt, kTraining, "both, with hooks_ns"},
    {kSamples, "optimizer_ns", kInt, kTraining, "its step, without waits"},
    {kSamples, "comm_busy_ns", kInt, kTraining, "with a collective in flight; of gradsync's own"},
    {kSamples, "communication_cpu_ns", kInt, kTraining, "CPU time of its groups' threads, likewise"},
    {kSamples, "compute_cpu_ns", kInt, kTraining, "CPU time of all other threads of the process, likewise"},
    {kSamples, "forward.*_ns", kInt, "", "profile: operations"},
    {kSamples, "backward.*_ns", kInt, "", "profile: operations"},
    {kSamples, "sync.*_ns", kInt, "", "profile: the wait"},
    {kSamples, "optimizer.*_ns", kInt, "", "profile: its step"},
    {kSamples, "own_ns", kInt, kLearning,
     "the strategy's work in BeginStep, hooks and Finish, without waits"},
    {kSamples, "training_loss_nano", kInt, kLearning, "1e-9 nats for each byte, mean over ranks"},
    {kSamples, "held_out_loss_nano", kInt, kLearning, "of the held-out text after the step; -1: none"},

    {kMoments, "ready_ns", kInt, "",
     "from the step's begin to the bucket's last gradient; -1, here and below: not known"},
    {kMoments, "issued_ns", kInt, "", "from there until its collective was issued"},
    {kMoments, "started_ns", kInt, "", "from there until a communication thread took it up"},
    {kMoments, "ended_ns", kInt, "", "from there until it was done"},

    {kChecks, "reference", kText, kTraining, "single_process, equation (if not exact) or none"},
    {kChecks, "grad_rel_error", kNumber, kTraining, "relative distance of gradients from the reference's"},
    {kChecks, "param_rel_error", kNumber, kTraining, "of parameters from what these gradients make"},
    {kChecks, "grads_equal", kBool, kTraining, "within the tolerance"},
    {kChecks, "params_equal", kBool, kTraining, "within the tolerance"},
    {kChecks, "replicas_equal", kBool, kTraining, "bit by bit"},
    {kChecks, "tolerance", kNumber, kTraining, "of those errors"},
    {kChecks, "worst_grad", kText, kTraining, "the tensor's name"},
    {kChecks, "worst_param", kText, kTraining, "the tensor's name"},
    {kChecks, "spot_checks", kInt, "", "timed steps, drawn at random, after which ranks compared gradients"},
    {kChecks, "equal_spot_checks", kInt, "", "after which they were equal"},
    {kChecks, "wrong_elements", kInt, "all_reduce", "of the result"},
    {kChecks, "checked_elements", kInt, "all_reduce", "of the result"},

    {kFacts, "launcher", kText, kBenchmarks, "who started the ranks"},
    {kFacts, "local_size", kInt, kBenchmarks, "ranks on this host"},
    {kFacts, "hosts", kText, "", "of hierarchical: how many, and of how many ranks"},
    {kFacts, "launch_set", kText, kBenchmarks, "run_id of the first launch of --repeats"},
    {kFacts, "launch", kInt, kBenchmarks, "of --repeats, from 0"},
    {kFacts, "launches", kInt, kBenchmarks, "how many were planned"},
    {kFacts, "collectives_in_flight", kInt, kBenchmarks, "at most"},
    {kFacts, "compute_cpus", kText, "", "pinned: which"},
    {kFacts, "communication_cpus", kText, "", "pinned: which, or any"},
    {kFacts, "gpu_uuid", kText, "", "of a GPU"},
    {kFacts, "ranks_per_gpu", kInt, "", "of a GPU"},
    {kFacts, "nccl_log_prefix", kText, "", "in NCCL's own logs"},
    {kFacts, "num_parameters", kInt, kTraining, "of the model"},
    {kFacts, "num_tensors", kInt, kTraining, "that they are in"},
    {kFacts, "gradient_bytes", kInt, "", "of all gradients"},
    {kFacts, "floor", kText, "", "the strategy from which its cost is measured; a floor's is itself"},
    {kFacts, "agreement", kText, "", "exact, lossy or drifts (see ddp/traits.h)"},
    {kFacts, "places_values", kBool, "",
     "whether ranks share one copy of the weights, which shortens forward"},
    {kFacts, "overlaps", kBool, "", "whether it communicates during backward"},
    {kFacts, "period", kInt, "", "steps from one synchronisation to the next, of which a sample is the mean"},
    {kFacts, "delay_ns", kInt, "", "by which the benchmark made each step longer, on purpose"},
    {kFacts, "peer", kText, "", "pytorch: the framework that took the steps"},
    {kFacts, "twin", kText, "", "of peers: gradsync's strategy that it compares with"},
    {kFacts, "tokens_per_step", kInt, "", "of all ranks"},
    {kFacts, "images_per_step", kInt, "", "of all ranks"},
    {kFacts, "flops_per_step", kNumber, kTraining, "of forward and backward of one rank's batch"},
    {kFacts, "peak_flops_per_second", kNumber, kTraining, "of all ranks at once, at best"},
    {kFacts, "allocations_in_timed_steps", kKnown, kTraining, "that the memory's source was asked for"},
    {kFacts, "peak_bytes_in_use", kKnown, kTraining, "on the device, by this variant; of a peer's by all"},
    {kFacts, "order0_bits", kNumber, kLearning, "entropy of the held-out text's bytes, each for itself"},
    {kFacts, "xz_bits", kNumber, kLearning, "of xz, for each byte of the same behind the training text"},
    {kFacts, "training_bytes", kInt, kLearning, "of the text"},
    {kFacts, "held_out_bytes", kInt, kLearning, "of the text"},
    {kFacts, "first_step", kInt, kLearning, "steps that a checkpoint had taken before; 0: none"},
    {kFacts, "sent_bytes_per_step", kNumber, "", "of each rank, by the fastest algorithms; missing of peers"},
    {kFacts, "bucket_sizes", kText, "", "a peer's: the bytes of its buckets, in order"},
    {kFacts, "compiled", kText, "", "what torch.compile was given"},
    {kFacts, "compile_ns", kInt, "", "before the first step"},
    {kFacts, "ranks_behind_times", kText, "", "of figures"},
    {kFacts, "phases_synchronised", kBool, "", "of figures"},
    {kFacts, "copies_timed", kBool, "", "of figures"},
    {kFacts, "replicas_start_equal", kBool, "", "of figures"},

    {kLink, "kind", kText, kBenchmarks, "as in bench/launch/link.h; also memory or none"},
    {kLink, "interface", kText, "", "its name"},
    {kLink, "limit_bytes_per_second", kNumber, "", "more than any link of the kind carries"},

    {kPublished, "*_ns", kNumber, "", "a statistic"},
    {kPublished, "n", kInt, "", "steps behind it"},
    {kPublished, "printed_*", kNumber, "", "printed beside it"},
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

// Calls `take(part, name, value)` with everything in the free parts of a record; of a series the value is
// null.
template <class Take>
void ForEachName(const Record& record, const Take& take) {
  const auto take_all = [&](Part part, const Fields& fields) {
    for (const auto& [name, value] : fields) take(part, name, &value);
  };
  take_all(kConfig, record.config);
  take_all(kChecks, record.checks);
  take_all(kFacts, record.facts);
  take_all(kLink, record.link);
  for (const auto& [name, statistics] : record.published) take_all(kPublished, statistics);
  for (const auto& [name, series] : record.samples) take(kSamples, name, nullptr);
  for (const auto& [name, series] : record.moments) take(kMoments, name, nullptr);
}

bool IsOf(Type type, const Value& value) {
  const auto held = static_cast<Type>(value.index());
  if (type == kKnown) return held == kInt || held == kText;
  return held == type || (type == kNumber && held == kInt);
}

}  // namespace

Scope ScopeOf(std::string_view name, const Fields& config) {
  if (IsOption(name, config)) return kVariant;
  const SchemaName* const entry = Find(kConfig, name);
  return entry == nullptr ? kCell : entry->scope;
}

std::vector<std::string> WrongTypes(const Record& record) {
  std::vector<std::string> faults;
  ForEachName(record, [&](Part part, const std::string& name, const Value* value) {
    const SchemaName* const entry = value == nullptr ? nullptr : Find(part, name);
    if (entry == nullptr || IsOf(entry->type, *value)) return;
    faults.push_back(
        Join("\"", name, "\" is ", kTypeNames[value->index()], ", expected ", kTypeNames[entry->type]));
  });
  return faults;
}

std::vector<std::string> SchemaFaults(const Record& record) {
  std::vector<std::string> faults = WrongTypes(record);
  std::set<std::pair<Part, std::string>> names;
  ForEachName(record, [&](Part part, const std::string& name, const Value*) {
    names.emplace(part, name);
    const bool is_option = part == kConfig && IsOption(name, record.config);
    if (!is_option && Find(part, name) == nullptr)
      faults.push_back(Join("\"", name, "\" is not in the schema"));
  });
  for (const SchemaName& entry : kSchema) {
    const bool is_written =
        Join(" ", entry.writers, " ").find(Join(" ", record.experiment, " ")) != std::string::npos;
    if (is_written && !names.contains({entry.part, std::string(entry.name)}))
      faults.push_back(Join("no \"", entry.name, "\""));
  }
  return faults;
}

}  // namespace gradsync::bench
