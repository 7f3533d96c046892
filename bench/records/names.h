#ifndef GRADSYNC_BENCH_RECORDS_NAMES_H_
#define GRADSYNC_BENCH_RECORDS_NAMES_H_

#include <algorithm>
#include <iterator>
#include <string_view>

// All names that may stand in the free parts of a record; its members are in record.h. A name in a program is
// a literal that is checked when it is compiled: one that its part of this table lacks does not compile.
namespace gradsync::bench {

// What a name of a configuration tells apart. Rows of a table are variants of cells: two records are of one
// row if variant, cell and trial agree, whatever the run was.
//
//   kCell   what the variants of a run share: model, batch, dtype, device, threads
//   kTrial  which of the trials of one variant
//   kRun    how the launch measured: how many steps, which seed
enum class Scope { kCell, kTrial, kRun };

// An object in a record.
enum class Part { kConfig, kSamples, kChecks, kFacts, kLink, kPublished };

namespace schema {

using enum Part;
using enum Scope;

// The type of a value; in samples, the type of each entry. kNumber: whole or not, or null (NaN).
// kKnown: a whole number, or the text "unknown".
enum Type { kBool, kInt, kNumber, kText, kKnown };  // the first four in the order of Value's alternatives

// What writes records: all_reduce, ddp for itself and for peers, convergence.
enum Writer : unsigned { kSome = 0, kAllReduce = 1, kDdp = 2, kPeers = 4, kLearning = 8 };
inline constexpr unsigned kTraining = kDdp | kPeers, kBenchmarks = kAllReduce | kTraining;

struct SchemaName {
  Part part;
  std::string_view name;  // "*": anything, in its place
  Type type;
  unsigned writers;  // whose records all have it, once they are written to their end
  std::string_view meaning;
  Scope scope = kCell;  // of a configuration
};

inline constexpr SchemaName kSchema[] = {
    {kConfig, "device", kText, kBenchmarks, "cpu or cuda"},
    {kConfig, "dtype", kText, kBenchmarks, "of activations, or elements"},
    {kConfig, "threads_per_rank", kInt, kBenchmarks, "that compute"},
    {kConfig, "comm_threads", kInt, kBenchmarks, "that communicate"},
    {kConfig, "seed", kInt, kBenchmarks, "of this launch", kRun},
    {kConfig, "link_rate", kInt, kSome, "bits per second to which the link was limited, in each direction"},
    {kConfig, "collective", kText, kAllReduce, "all_reduce, reduce_scatter, all_gather or broadcast"},
    {kConfig, "op", kText, kSome, "sum or mean"},
    {kConfig, "size_bytes", kInt, kSome, "of the whole vector: reduce_scatter's input, all_gather's output"},
    {kConfig, "in_flight", kInt, kSome, "so many of them at the same time, if there are several"},
    {kConfig, "iterations", kInt, kAllReduce, "timed", kRun},
    {kConfig, "warmup_iterations", kInt, kAllReduce, "before them", kRun},
    {kConfig, "model", kText, kSome, "by name"},
    {kConfig, "batch_size", kInt, kSome, "of one rank"},
    {kConfig, "accumulation_steps", kInt, kSome, "such batches in a step, if there are several"},
    {kConfig, "order", kText, kBenchmarks, "interleaved or blocks"},
    {kConfig, "warmup_steps", kInt, kSome, "untimed", kRun},
    {kConfig, "steps", kInt, kSome, "timed", kRun},
    {kConfig, "time", kText, kSome, "of a launch, for timed steps, instead of a number of them", kRun},
    {kConfig, "precision", kNumber, kSome, "of the baseline's step: known to +- that, no launch follows",
     kRun},
    {kConfig, "optimizer", kText, kSome,
     "adamw, sgd or muon; of published figures also none; missing if it is the variant's option"},
    {kConfig, "learning_rate", kNumber, kTraining, "the optimizer's"},
    {kConfig, "traced", kBool, kTraining, "whether steps wrote a trace too"},
    {kConfig, "data", kText, kTraining, "uniform or corpus"},
    {kConfig, "weights", kText, kTraining, "random or file"},
    {kConfig, "seq_len", kInt, kSome, "of transformers"},
    {kConfig, "num_layers", kInt, kSome, "of transformers"},
    {kConfig, "d_model", kInt, kSome, "of transformers"},
    {kConfig, "d_ff", kInt, kSome, "of transformers"},
    {kConfig, "num_heads", kInt, kSome, "of transformers"},
    {kConfig, "vocab_size", kInt, kSome, "of transformers"},
    {kConfig, "image_size", kInt, kSome, "pixels on each side"},
    {kConfig, "width", kInt, kSome, "channels of the first layers"},
    {kConfig, "lr_schedule", kText, kSome, "of the learning rate, unless it is constant"},
    {kConfig, "decay", kText, kSome, "what decays, unless it is all: matrices"},
    {kConfig, "text", kText, kLearning, "what was learnt, by name"},
    {kConfig, "text_sha256", kText, kLearning, "of all of it, and of which part is held out"},
    {kConfig, "training_steps", kInt, kLearning, "of each variant from each seed, in all"},
    {kConfig, "evaluate_every", kInt, kLearning, "steps, after which the held-out loss is measured"},
    {kConfig, "held_out_windows", kInt, kLearning, "sequences, by which a model is judged"},
    {kConfig, "trial_seed", kInt, kLearning, "of initial weights and batches", kTrial},

    {kSamples, "position", kInt, kBenchmarks, "index in the launch's own order over all its configurations"},
    {kSamples, "time_ns", kInt, kAllReduce, "from a barrier to its end"},
    {kSamples, "back_to_back_ns", kInt, kAllReduce, "mean over several, without barriers between them"},
    {kSamples, "begin_ns", kInt, kSome,
     "when this rank left the barrier, on its host's steady clock, which ranks of one host and boot share"},
    {kSamples, "others_cpu_ns", kInt, kSome,
     "CPU time of all but the job's ranks on this host in a step or period, in the system's ticks of 10 ms: "
     "may be negative"},
    // The parts of a step, which add up to it: see step_times.h.
    {kSamples, "begin_step_ns", kInt, kSome,
     "the strategy's work before forward (BeginStep); of peers and on a GPU in forward_ns"},
    {kSamples, "forward_ns", kInt, kTraining, "with the loss and the broadcast of buffers"},
    {kSamples, "forward_wait_ns", kInt, kSome,
     "what forward waited for weights; of strategies that may communicate before the last backward pass"},
    {kSamples, "backward_ns", kInt, kDdp,
     "to the end of the last gradient's computation; missing of peers that average in it"},
    {kSamples, "hooks_ns", kInt, kSome,
     "the strategy's work in hooks (OnGradReady); of peers and on a GPU in backward_ns"},
    {kSamples, "backward_wait_ns", kInt, kSome, "what backward waited for weights, as forward_wait_ns"},
    {kSamples, "sync_wait_ns", kInt, kDdp,
     "from backward's end until every gradient is averaged, and all other waits; missing as backward_ns"},
    {kSamples, "backward_and_sync_ns", kInt, kSome, "in place of these five, of peers that average in it"},
    {kSamples, "optimizer_ns", kInt, kTraining, "its step, without waits"},
    {kSamples, "step_ns", kInt, kLearning, "a whole step"},

    {kSamples, "comm_busy_ns", kInt, kDdp, "with a collective in flight; of gradsync's own"},
    {kSamples, "communication_cpu_ns", kInt, kDdp,
     "CPU time of its groups' threads, likewise; of //bench:all_reduce of all"},
    {kSamples, "compute_cpu_ns", kInt, kDdp, "CPU time of all other threads of the process, likewise"},
    {kSamples, "forward.*_ns", kInt, kSome, "profile: operations"},
    {kSamples, "backward.*_ns", kInt, kSome, "profile: operations"},
    {kSamples, "sync.*_ns", kInt, kSome, "profile: the wait"},
    {kSamples, "optimizer.*_ns", kInt, kSome, "profile: its step"},
    {kSamples, "training_loss_nano", kInt, kLearning, "1e-9 nats for each byte, mean over ranks"},
    {kSamples, "held_out_loss_nano", kInt, kLearning, "of the held-out text after the step; -1: none"},

    {kChecks, "reference", kText, kTraining, "single_process, equation (if not exact) or none"},
    {kChecks, "grad_rel_error", kNumber, kTraining, "relative distance of gradients from the reference's"},
    {kChecks, "param_rel_error", kNumber, kTraining, "of parameters from what these gradients make"},
    {kChecks, "grads_equal", kBool, kTraining, "within the tolerance"},
    {kChecks, "params_equal", kBool, kTraining, "within the tolerance"},
    {kChecks, "replicas_equal", kBool, kTraining, "bit by bit"},
    {kChecks, "tolerance", kNumber, kTraining, "of those errors"},
    {kChecks, "worst_grad", kText, kTraining, "the tensor's name"},
    {kChecks, "worst_param", kText, kTraining, "the tensor's name"},
    {kChecks, "spot_checks", kInt, kSome,
     "timed steps, drawn at random, after which ranks compared gradients"},
    {kChecks, "equal_spot_checks", kInt, kSome, "after which they were equal"},
    {kChecks, "wrong_elements", kInt, kAllReduce, "of the result"},
    {kChecks, "checked_elements", kInt, kAllReduce, "of the result"},

    {kFacts, "launcher", kText, kBenchmarks, "who started the ranks"},
    {kFacts, "hosts", kText, kSome, "of hierarchical: how many, and of how many ranks"},
    {kFacts, "channels", kInt, kBenchmarks, "so many collectives make progress at the same time"},
    {kFacts, "receivers", kInt, kBenchmarks, "threads of a rank that only receive, beside its comm_threads"},
    {kFacts, "launch_set", kText, kBenchmarks,
     "of --repeats: run_id of the first; or GRADSYNC_LAUNCH's name"},
    {kFacts, "launch", kInt, kBenchmarks, "of its set, from 0"},
    {kFacts, "launches", kInt, kBenchmarks, "how many were planned"},
    {kFacts, "boot", kText, kSome, "of the rank's machine: its ranks share CPUs and a clock"},
    {kFacts, "allowed_cpus", kText, kSome, "that this rank may use"},
    {kFacts, "numa_node", kText, kSome, "of the CPU that the rank was on when its records began"},
    {kFacts, "huge_pages", kText, kSome, "which ones the system gives unasked: always [madvise] never"},
    {kFacts, "governor", kText, kSome, "of the clock of CPU 0"},
    {kFacts, "cpu_quota", kNumber, kSome, "CPUs' time that control groups allow, if they limit it"},
    {kFacts, "cpu_periods", kInt, kSome, "of that quota, from the begin of the run's records to their end"},
    {kFacts, "throttled_periods", kInt, kSome, "of these, in which it was used up, and threads had to wait"},
    {kFacts, "denormals", kText, kSome,
     "flushed: computed as zeros; of peers kept, unless they say otherwise"},
    {kFacts, "malloc", kText, kSome,
     "a peer's: glibc's variables that keep memory instead of giving it back"},
    {kFacts, "gpu_uuid", kText, kSome, "of a GPU"},
    {kFacts, "ranks_per_gpu", kInt, kSome, "of a GPU"},
    {kFacts, "nccl_log_prefix", kText, kSome, "in NCCL's own logs"},
    {kFacts, "num_parameters", kInt, kTraining, "of the model"},
    {kFacts, "num_tensors", kInt, kTraining, "that they are in"},
    {kFacts, "gradient_bytes", kInt, kSome, "of all gradients"},
    {kFacts, "bucket_bytes", kInt, kSome, "capacity of a bucket"},
    {kFacts, "floor", kText, kSome, "the strategy from which its cost is measured; a floor's is itself"},
    {kFacts, "agreement", kText, kSome, "exact, lossy or drifts (see ddp/traits.h)"},
    {kFacts, "places_values", kBool, kSome,
     "whether ranks share one copy of the weights, which shortens forward"},
    {kFacts, "largest_work", kNumber, kSome, "of a step's updates: the largest rank's over the mean"},
    {kFacts, "rows_save_bytes", kNumber, kSome,
     "of rows=1: how much less each rank sends in a step, because rows that no token touched are left out"},
    {kFacts, "tuning", kBool, kSome, "a trial that only chose settings, and is not judged"},
    {kFacts, "overlaps", kBool, kSome, "whether it communicates during backward"},
    {kFacts, "period", kInt, kSome,
     "steps of which a sample is the mean: from one synchronisation to the next, or several in a row of a "
     "strategy that leaves weights to the next forward"},
    {kFacts, "turn_steps", kInt, kSome, "these and the untimed ones before them, if there are several"},
    {kFacts, "peer", kText, kSome, "pytorch: the framework that took the steps"},
    {kFacts, "twin", kText, kSome, "of peers: gradsync's strategy that it compares with"},
    {kFacts, "tokens_per_step", kInt, kSome, "of all ranks"},
    {kFacts, "images_per_step", kInt, kSome, "of all ranks"},
    {kFacts, "flops_per_step", kNumber, kTraining, "of forward and backward of one rank's batch"},
    {kFacts, "peak_flops_per_second", kNumber, kTraining, "of all ranks at once, at best"},
    {kFacts, "allocations_in_timed_steps", kKnown, kTraining, "that the memory's source was asked for"},
    {kFacts, "peak_bytes_in_use", kKnown, kTraining, "on the device, by this variant; of a peer's by all"},
    {kFacts, "peak_resident_bytes", kInt, kSome,
     "of this rank's process, as the system counts it, until checks begin; if it trained one variant"},
    {kFacts, "built_bytes", kInt, kSome, "on the device, by this variant, when forward begins"},
    {kFacts, "before_update_bytes", kInt, kSome, "likewise, when the update begins"},
    {kFacts, "after_update_bytes", kInt, kSome, "likewise, when it is done"},
    {kFacts, "weights_bytes", kInt, kSome,
     "what this rank keeps of them from step to step, of what a host shares its part"},
    {kFacts, "gradients_bytes", kInt, kSome, "likewise, of gradients"},
    {kFacts, "state_bytes", kInt, kSome, "likewise, of the optimizer's and the strategy's state"},
    {kFacts, "theory_bytes", kNumber, kSome, "these three as published, without padding"},
    {kFacts, "theory_sent_bytes", kNumber, kSome, "by each rank in a step, likewise"},
    {kFacts, "sent_bytes_per_step", kNumber, kSome,
     "of each rank, by the fastest algorithms; missing of peers"},
    {kFacts, "bucket_sizes", kText, kSome, "a peer's: the bytes of its buckets, in order"},
    {kFacts, "compiled", kText, kSome, "what torch.compile was given"},
    {kFacts, "compile_ns", kInt, kSome, "before the first step"},
    {kFacts, "ranks_behind_times", kText, kSome, "of figures"},
    {kFacts, "phases_synchronised", kBool, kSome, "of figures"},
    {kFacts, "copies_timed", kBool, kSome, "of figures"},
    {kFacts, "replicas_start_equal", kBool, kSome, "of figures"},

    {kLink, "kind", kText, kBenchmarks, "as in bench/launch/link.h; also memory or none"},
    {kLink, "interface", kText, kSome, "its name"},
    {kLink, "limit_bytes_per_second", kNumber, kSome, "more than any link of the kind carries"},

    {kPublished, "*_ns", kNumber, kSome, "a statistic"},
    {kPublished, "n", kInt, kSome, "steps behind it"},
    {kPublished, "printed_*", kNumber, kSome, "printed beside it"},
};

constexpr bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  return name.size() > before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind);
}

constexpr bool Contains(Part part, std::string_view name) {
  return std::ranges::any_of(
      kSchema, [&](const SchemaName& entry) { return entry.part == part && Matches(entry.name, name); });
}

}  // namespace schema

// A name of this part.
template <Part kPart>
class NameIn {
 public:
  consteval NameIn(const char* literal) : text_(literal) {
    if (!schema::Contains(kPart, text_)) throw "not a name of this part in bench/records/names.h";
  }
  // A name that was read, made from a pattern such as "forward.*_ns", or computed from samples; `text` must
  // live as long.
  static constexpr NameIn Of(std::string_view text) { return NameIn(text, 0); }

  constexpr std::string_view text() const { return text_; }

 private:
  constexpr NameIn(std::string_view text, int /*any*/) : text_(text) {}

  std::string_view text_;
};

using ConfigName = NameIn<Part::kConfig>;
using SampleName = NameIn<Part::kSamples>;
using CheckName = NameIn<Part::kChecks>;
using FactName = NameIn<Part::kFacts>;

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_NAMES_H_
