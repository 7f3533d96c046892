#pragma once

#include <algorithm>
#include <string_view>

// The table kSchema lists the names, types and meanings of the values in those parts of the benchmarks'
// records that RecordPart names.
namespace gradsync::bench {

// What a value in a record's configuration describes:
//
//   kSetting  what is measured: model, batch size, dtype, device, threads
//   kTrial    which trial is measured: the seed of its weights and batches
//   kRun      how the benchmark measures: number of steps, seed of the launch
enum class Scope { kSetting, kTrial, kRun };

enum class RecordPart { kConfig, kSamples, kChecks, kFacts, kLink, kPublished };

namespace schema {

using enum RecordPart;
using enum Scope;

// The type of a value in a record, or of each entry of a series of samples. kNumber is a whole number, a
// fraction, or null (NaN). kKnown is a whole number or the text "unknown".
enum Type { kBool, kInt, kNumber, kText, kKnown };  // the first four have the order of Value's alternatives

// A Writer says which programs wrote a record. kDdp and kPeers stand for the same two programs: kDdp for
// records of gradsync's strategies, kPeers for records of PyTorch's. Each Writer except kSome has one bit, so
// that a number can stand for a set of Writers. kSome is the empty set.
//
//   kAllReduce  //bench:all_reduce
//   kDdp        //bench:ddp and //bench:compare, for a strategy of gradsync
//   kPeers      //bench:ddp and //bench:compare, for a strategy of PyTorch
//   kLearning   //bench:convergence
enum Writer : unsigned { kSome = 0, kAllReduce = 1, kDdp = 2, kPeers = 4, kLearning = 8 };
inline constexpr unsigned kTraining = kDdp | kPeers, kBenchmarks = kAllReduce | kTraining;

struct SchemaName {
  RecordPart part;
  std::string_view name;  // "*" stands for any text
  Type type;
  unsigned writers;  // programs whose complete records always have this name
  std::string_view meaning;
  Scope scope = kSetting;  // only for names of a configuration
};

inline constexpr SchemaName kSchema[] = {
    {kConfig, "device", kText, kBenchmarks, "cpu or cuda"},
    {kConfig, "dtype", kText, kBenchmarks, "type of activations, or of elements of a collective"},
    {kConfig, "threads_per_rank", kInt, kBenchmarks, "number of compute threads of a rank"},
    {kConfig, "comm_threads", kInt, kBenchmarks, "number of communication threads of a rank"},
    {kConfig, "seed", kInt, kBenchmarks, "seed of this launch", kRun},
    {kConfig, "link_rate", kInt, kSome, "rate limit of the link in bits per second, in each direction"},
    {kConfig, "collective", kText, kAllReduce, "all_reduce, reduce_scatter, all_gather or broadcast"},
    {kConfig, "op", kText, kSome, "sum or mean"},
    {kConfig, "size_bytes", kInt, kSome,
     "size of the whole vector: the input of reduce_scatter, the output of all_gather"},
    {kConfig, "in_flight", kInt, kSome, "number of concurrent collectives, if more than one"},
    {kConfig, "iterations", kInt, kAllReduce, "number of timed iterations", kRun},
    {kConfig, "warmup_iterations", kInt, kAllReduce,
     "number of untimed iterations before the timed iterations", kRun},
    {kConfig, "model", kText, kSome, "name of the model"},
    {kConfig, "batch_size", kInt, kSome, "batch size of one rank"},
    {kConfig, "accumulation_steps", kInt, kSome, "number of batches in a step, if more than one"},
    {kConfig, "order", kText, kBenchmarks, "interleaved or blocks"},
    {kConfig, "warmup_steps", kInt, kSome, "number of untimed steps", kRun},
    {kConfig, "steps", kInt, kSome, "number of timed steps", kRun},
    {kConfig, "time", kText, kSome, "time of a launch for timed steps, instead of their number", kRun},
    {kConfig, "precision", kNumber, kSome,
     "fraction of the baseline's step; no launch follows after all intervals are within +- precision", kRun},
    {kConfig, "optimizer", kText, kSome,
     "adamw, sgd or muon; published figures may have none; missing if the variant has the option"},
    {kConfig, "learning_rate", kNumber, kTraining, "learning rate of the optimizer"},
    {kConfig, "traced", kBool, kTraining, "true if the program also wrote a trace of the steps"},
    {kConfig, "data", kText, kTraining, "uniform or corpus"},
    {kConfig, "weights", kText, kTraining, "random or file"},
    {kConfig, "seq_len", kInt, kSome, "sequence length of a transformer"},
    {kConfig, "num_layers", kInt, kSome, "number of layers of a transformer"},
    {kConfig, "d_model", kInt, kSome, "width of a transformer"},
    {kConfig, "d_ff", kInt, kSome, "width of a transformer's feed-forward layers"},
    {kConfig, "num_heads", kInt, kSome, "number of heads of a transformer"},
    {kConfig, "vocab_size", kInt, kSome, "vocabulary size of a transformer"},
    {kConfig, "image_size", kInt, kSome, "number of pixels on each side of an image"},
    {kConfig, "width", kInt, kSome, "number of channels of the first layers"},
    {kConfig, "lr_schedule", kText, kSome, "schedule of the learning rate, unless it is constant"},
    {kConfig, "decay", kText, kSome,
     "matrices: weight decay applies to matrices only; missing if it applies to all parameters"},
    {kConfig, "text", kText, kLearning, "name of the training text"},
    {kConfig, "text_sha256", kText, kLearning,
     "hash of the whole text and of its division into training text and held-out text"},
    {kConfig, "training_steps", kInt, kLearning, "number of steps of each trial"},
    {kConfig, "evaluate_every", kInt, kLearning,
     "number of steps between two measurements of the held-out loss"},
    {kConfig, "held_out_windows", kInt, kLearning,
     "number of held-out sequences on which the loss is measured"},
    {kConfig, "trial_seed", kInt, kLearning, "seed of initial weights and batches", kTrial},

    {kSamples, "position", kInt, kBenchmarks,
     "index of the sample in the launch's order of all configurations"},
    {kSamples, "time_ns", kInt, kAllReduce, "time from leaving a barrier to the end of the collective"},
    {kSamples, "back_to_back_ns", kInt, kAllReduce,
     "mean time of consecutive collectives without barriers between them"},
    {kSamples, "begin_ns", kInt, kSome,
     "time when this rank left the barrier, on its host's steady clock, which ranks of one host and boot "
     "share"},
    {kSamples, "others_cpu_ns", kInt, kSome,
     "CPU time that programs other than the job's ranks used on this host in a step or period; may be "
     "negative, because the system counts ticks of 10 ms"},
    {kSamples, "begin_step_ns", kInt, kSome,
     "time of the strategy's work before forward (BeginStep); part of forward_ns for peers and on a GPU"},
    {kSamples, "forward_ns", kInt, kTraining, "time of forward, with the loss and the broadcast of buffers"},
    {kSamples, "forward_wait_ns", kInt, kSome,
     "time that forward waited for weights, for strategies that may communicate before the last backward "
     "pass"},
    {kSamples, "backward_ns", kInt, kDdp,
     "time from the end of forward to the end of the last gradient's computation; missing for peers that "
     "average in backward"},
    {kSamples, "hooks_ns", kInt, kSome,
     "time of the strategy's work in hooks (OnGradReady); part of backward_ns for peers and on a GPU"},
    {kSamples, "backward_wait_ns", kInt, kSome,
     "time that backward waited for weights, for the strategies of forward_wait_ns"},
    {kSamples, "sync_wait_ns", kInt, kDdp,
     "time from the end of backward until every gradient is averaged, and, except on a GPU, all other waits; "
     "missing if backward_ns is missing"},
    {kSamples, "backward_and_sync_ns", kInt, kSome,
     "sum of the parts from backward to the average of gradients, for peers that average in backward"},
    {kSamples, "optimizer_ns", kInt, kTraining,
     "time of the optimizer's step, without waits; on a GPU with the waits of the update"},
    {kSamples, "step_ns", kInt, kLearning, "time of a whole step"},

    {kSamples, "comm_busy_ns", kInt, kDdp, "time with a collective in flight; missing for peers"},
    {kSamples, "communication_cpu_ns", kInt, kDdp,
     "CPU time of the threads of the variant's groups; of all groups' threads for //bench:all_reduce; "
     "missing for peers"},
    {kSamples, "compute_cpu_ns", kInt, kDdp,
     "CPU time of all other threads of the process; missing for peers"},
    {kSamples, "forward.*_ns", kInt, kSome, "profile: time of an operation in forward"},
    {kSamples, "backward.*_ns", kInt, kSome, "profile: time of an operation in backward"},
    {kSamples, "sync.*_ns", kInt, kSome, "profile: all waits of this rank"},
    {kSamples, "optimizer.*_ns", kInt, kSome, "profile: time of the optimizer's step"},
    {kSamples, "training_loss_nano", kInt, kLearning, "training loss in 1e-9 nats per byte, mean over ranks"},
    {kSamples, "held_out_loss_nano", kInt, kLearning,
     "loss on held-out text after the step in 1e-9 nats per byte; -1 if it was not measured"},

    {kChecks, "reference", kText, kTraining,
     "single_process, equation (if the strategy is not exact) or none"},
    {kChecks, "grad_rel_error", kNumber, kTraining,
     "relative distance of gradients from the reference's gradients"},
    {kChecks, "param_rel_error", kNumber, kTraining,
     "relative distance of parameters from the optimizer's result for these gradients"},
    {kChecks, "grads_equal", kBool, kTraining, "true if the error of gradients is within the tolerance"},
    {kChecks, "params_equal", kBool, kTraining, "true if the error of parameters is within the tolerance"},
    {kChecks, "replicas_equal", kBool, kTraining,
     "true if all ranks have bitwise equal gradients and parameters"},
    {kChecks, "tolerance", kNumber, kTraining, "largest allowed relative error"},
    {kChecks, "worst_grad", kText, kTraining, "name of the gradient with the largest error"},
    {kChecks, "worst_param", kText, kTraining, "name of the parameter with the largest error"},
    {kChecks, "spot_checks", kInt, kSome,
     "number of timed steps, drawn at random, after which ranks compared gradients"},
    {kChecks, "equal_spot_checks", kInt, kSome, "number of spot checks in which gradients were equal"},
    {kChecks, "wrong_elements", kInt, kAllReduce, "number of wrong elements of the result"},
    {kChecks, "checked_elements", kInt, kAllReduce, "number of checked elements of the result"},

    {kFacts, "launcher", kText, kBenchmarks, "program that started the ranks"},
    {kFacts, "hosts", kText, kSome, "hierarchical: number of hosts, and of ranks on each host"},
    {kFacts, "channels", kInt, kBenchmarks, "number of collectives that make progress concurrently"},
    {kFacts, "receivers", kInt, kBenchmarks,
     "number of threads of a rank that only receive, in addition to comm_threads"},
    {kFacts, "launch_set", kText, kBenchmarks,
     "run_id of the first launch of --repeats, or the name in GRADSYNC_LAUNCH"},
    {kFacts, "launch", kInt, kBenchmarks, "index of the launch in its set, from 0"},
    {kFacts, "launches", kInt, kBenchmarks, "number of planned launches"},
    {kFacts, "stage", kText, kSome,
     "with --choose: choosing for the first launch, of all rows; deciding for the later launches"},
    {kFacts, "boot", kText, kSome,
     "identity of the machine and its boot; ranks with equal values share CPUs and a clock"},
    {kFacts, "allowed_cpus", kText, kSome, "CPUs that this rank may use"},
    {kFacts, "numa_node", kText, kSome, "NUMA node of the CPU that the rank used when its records began"},
    {kFacts, "huge_pages", kText, kSome,
     "the system's setting of transparent huge pages, such as always [madvise] never"},
    {kFacts, "governor", kText, kSome, "frequency governor of CPU 0"},
    {kFacts, "cpu_quota", kNumber, kSome, "number of CPUs whose time control groups allow, if they limit it"},
    {kFacts, "cpu_periods", kInt, kSome, "number of periods of the quota during the run"},
    {kFacts, "throttled_periods", kInt, kSome,
     "number of periods in which the quota was used up, and threads had to wait"},
    {kFacts, "denormals", kText, kSome,
     "flushed if denormals are computed as zeros; peers keep them, unless their record has another value"},
    {kFacts, "malloc", kText, kSome, "peers: environment variables that make glibc keep freed memory"},
    {kFacts, "gpu_uuid", kText, kSome, "UUID of the GPU"},
    {kFacts, "ranks_per_gpu", kInt, kSome, "number of ranks that share the GPU"},
    {kFacts, "nccl_log_prefix", kText, kSome, "prefix of this group's lines in NCCL's logs"},
    {kFacts, "num_parameters", kInt, kTraining, "number of parameters of the model"},
    {kFacts, "num_tensors", kInt, kTraining, "number of tensors that hold the parameters"},
    {kFacts, "gradient_bytes", kInt, kSome, "bytes of all gradients"},
    {kFacts, "bucket_bytes", kInt, kSome, "capacity of a bucket"},
    {kFacts, "floor", kText, kSome, "strategy relative to which the cost is measured; a floor names itself"},
    {kFacts, "agreement", kText, kSome, "exact, lossy or drifts (see ddp/interface/traits.h)"},
    {kFacts, "places_values", kBool, kSome,
     "true if ranks share one copy of the weights, which shortens forward"},
    {kFacts, "largest_work", kNumber, kSome,
     "update work of the largest rank divided by the mean over ranks"},
    {kFacts, "rows_save_bytes", kNumber, kSome,
     "rows=1: bytes that each rank does not send in a step, because no token used their rows"},
    {kFacts, "tuning", kBool, kSome, "true for a trial that only selects settings"},
    {kFacts, "overlaps", kBool, kSome, "true if the strategy communicates during backward"},
    {kFacts, "period", kInt, kSome, "number of consecutive steps of which a sample is the mean"},
    {kFacts, "turn_steps", kInt, kSome,
     "number of steps of a turn, including untimed steps, if more than one"},
    {kFacts, "peer", kText, kSome, "framework that took the steps: pytorch"},
    {kFacts, "twin", kText, kSome, "peers: the comparable strategy of gradsync"},
    {kFacts, "tokens_per_step", kInt, kSome, "number of tokens of all ranks in a step"},
    {kFacts, "images_per_step", kInt, kSome, "number of images of all ranks in a step"},
    {kFacts, "flops_per_step", kNumber, kTraining,
     "floating-point operations of forward and backward of one rank's batch"},
    {kFacts, "peak_flops_per_second", kNumber, kTraining,
     "sum over ranks of the largest floating-point operations per second, while all ranks compute"},
    {kFacts, "allocations_in_timed_steps", kKnown, kTraining,
     "number of allocations from the memory's source in timed steps"},
    {kFacts, "peak_bytes_in_use", kKnown, kTraining,
     "peak memory on the device used by this variant; for a peer, by all variants"},
    {kFacts, "peak_resident_bytes", kInt, kSome,
     "peak resident memory of this rank's process before checks begin, if it trained one variant"},
    {kFacts, "built_bytes", kInt, kSome, "memory on the device used by this variant when forward begins"},
    {kFacts, "before_update_bytes", kInt, kSome,
     "memory on the device used by this variant when the update begins"},
    {kFacts, "after_update_bytes", kInt, kSome,
     "memory on the device used by this variant when the update is done"},
    {kFacts, "weights_bytes", kInt, kSome,
     "bytes of weights that this rank keeps between steps; ranks divide what they share"},
    {kFacts, "gradients_bytes", kInt, kSome, "bytes of gradients that this rank keeps between steps"},
    {kFacts, "state_bytes", kInt, kSome,
     "bytes of the optimizer's and the strategy's state that this rank keeps between steps"},
    {kFacts, "theory_bytes", kNumber, kSome,
     "bytes of weights, gradients and state according to the paper, without padding"},
    {kFacts, "theory_sent_bytes", kNumber, kSome,
     "bytes that each rank sends in a step according to the paper, without padding"},
    {kFacts, "sent_bytes_per_step", kNumber, kSome,
     "bytes that each rank sends in a step with the fastest algorithms; missing for peers"},
    {kFacts, "bucket_sizes", kText, kSome, "peers: bytes of each bucket, in order"},
    {kFacts, "compiled", kText, kSome, "arguments of torch.compile"},
    {kFacts, "compile_ns", kInt, kSome, "time of compilation before the first step"},
    {kFacts, "caveats", kText, kSome, "published figures: what to know about them; see docs/published"},

    {kLink, "kind", kText, kBenchmarks, "kind of bench/launch/link.h, memory or none"},
    {kLink, "interface", kText, kSome, "name of the network interface"},
    {kLink, "limit_bytes_per_second", kNumber, kSome,
     "more bytes per second than any link of this kind carries"},

    {kPublished, "*_ns", kNumber, kSome, "a statistic"},
    {kPublished, "n", kInt, kSome, "number of steps of the statistics"},
    {kPublished, "printed_*", kNumber, kSome, "a number that was printed with the statistics"},
};

constexpr bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  return name.size() > before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind);
}

constexpr bool Contains(RecordPart part, std::string_view name) {
  return std::ranges::any_of(
      kSchema, [&](const SchemaName& entry) { return entry.part == part && Matches(entry.name, name); });
}

}  // namespace schema

// The name of a value in one part of a record, such as its configuration, samples, checks or facts. A string
// literal that the table kSchema does not list for the part `kPart` is a compile error.
template <RecordPart kPart>
class NameIn {
 public:
  consteval NameIn(const char* literal) : text_(literal) {
    if (!schema::Contains(kPart, text_)) throw "not a name of this part in bench/records/names.h";
  }
  // Returns a NameIn with the name `text`, without the check that the table kSchema lists `text`. `text` must
  // outlive the NameIn.
  static constexpr NameIn Of(std::string_view text) { return NameIn(text, 0); }

  constexpr std::string_view text() const { return text_; }

 private:
  constexpr NameIn(std::string_view text, int /*any*/) : text_(text) {}

  std::string_view text_;
};

using ConfigName = NameIn<RecordPart::kConfig>;
using SampleName = NameIn<RecordPart::kSamples>;
using CheckName = NameIn<RecordPart::kChecks>;
using FactName = NameIn<RecordPart::kFacts>;

}  // namespace gradsync::bench
