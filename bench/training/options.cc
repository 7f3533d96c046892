#include "bench/training/options.h"

#include <algorithm>
#include <utility>

#include "bench/launch/flag_marks.h"
#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/base/error.h"
#include "model/base/units.h"
#include "model/transformer/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;
constexpr int64_t kMaxRepeats = 1000;
constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMebi = int64_t{1} << 20;
constexpr char kResNet[] = "resnet50";

std::vector<std::string> ModelNames() {
  std::vector<std::string> names = model::TransformerNames();
  names.emplace_back(kResNet);
  return names;
}

}  // namespace

bool TrainingOptions::on_images() const { return model == kResNet; }

TrainingOptions::TrainingOptions() : strategies(ddp::AllReduceStrategyNames()) {}

TrainingOptions CompareDefaults() {
  TrainingOptions options;
  options.model = kResNet;
  std::erase_if(options.strategies, [](const std::string& name) { return !ddp::TraitsOf(name).has_buckets; });
  // The best strategy first, because other strategies are compared with it.
  std::ranges::reverse(options.strategies);
  options.sweep.emplace().buffer_elements = {3 * kMebi, 8 * kMebi, 16 * kMebi, 27 * kMebi};
  options.optimizers = {OptimizerKind::kSgd};
  options.warmup_steps = 2;
  options.steps = 24;  // two blocks of the twelve variants
  return options;
}

std::vector<std::string> Sweep::Variants(const std::vector<std::string>& strategies) const {
  const char* const option = in_published_units ? "published_size" : "bucket_elements";
  std::vector<std::string> variants;
  for (const int64_t size : buffer_elements) {
    for (const std::string& strategy : strategies) {
      const bool has_buckets = ddp::TraitsOf(strategy).has_buckets;
      // Buckets have exactly the requested size, except in the published experiment.
      const bool has_edges = ddp::TraitsOf(strategy).FindOption(ddp::kSmallFirst.name) != nullptr;
      const char* const edges = has_edges && !is_published ? "small_first=0,small_last=0," : "";
      if (has_buckets) variants.push_back(Join(strategy, ":", edges, option, "=", FormatCount(size)));
      if (!has_buckets && size == buffer_elements.front()) variants.push_back(strategy);
    }
  }
  return variants;
}

void TrainingOptions::AddTo(FlagTable& flags) {
  AddModelTo(flags);
  AddVariantsTo(flags);
  if (!learns) AddStepsTo(flags);
  ranks.AddTo(flags);
  if (learns) return;
  flags.ShowFirst(sweep ? std::vector<std::string>{"preset", "model", "strategies", "buffer_elements",
                                                   "backend", "batch_size", "time", "device", "world_size",
                                                   "out"}
                        : std::vector<std::string>{"model", "variants", "backend", "batch_size", "seq_len",
                                                   "time", "repeats", "device", "world_size", "out"});
  AddChecksTo(flags);
  peers.AddTo(flags);
}

void TrainingOptions::AddModelTo(FlagTable& flags) {
  if (sweep) {
    flags.Add(
        "preset", &sweep->is_published, OneOf<bool>({{"scaled", false}, {"published", true}}),
        "Sets defaults: those of the published experiment, or smaller ones.\npublished: the original's 25 "
        "sizes from 3Mi to 27Mi, batches of 32 images of 224 x 224, 20 untimed steps and 20 timed ones. "
        "scaled: what --help shows, minutes on a CPU. Other flags override either.",
        kNeedsMemory);
  }
  flags.BeginGroup("Model");
  if (!learns) flags.Add("model", &model, OneOf(ModelNames()), "Trains this model.", kNeedsMemory);
  flags.Add("num_layers", &num_layers, Integer(1), "Sets how many blocks a transformer has.",
            kNeedsMemory | kOfTransformers);
  flags.Add("d_model", &d_model, Integer(1), "Sets the width of a transformer.",
            kNeedsMemory | kOfTransformers);
  flags.Add("d_ff", &d_ff, Integer(1), "Sets the width of a transformer's feed-forward layers.",
            kNeedsMemory | kOfTransformers);
  flags.Add("num_heads", &num_heads, Integer(1), "Sets how many attention heads a transformer has.",
            kNeedsMemory | kOfTransformers);
  if (!learns) {
    flags.Add("vocab_size", &vocab_size, Integer(1),
              "Sets the size of a transformer's vocabulary, instead of 10000.",
              kNeedsMemory | kOfTransformers);
    flags.Add("width", &width, Integer(1),
              "Sets how many channels ResNet-50's first layer has, instead of 64.", kNeedsMemory);
    flags.Add("weights", &weights, Path("a safetensors file"),
              "Reads the initial weights, by name, instead of drawing them.");
  }

  flags.BeginGroup("Batches");
  flags.Add("batch_size", &batch_sizes, Integer(1),
            "Gives each rank this number of sequences, or images, in a batch.",
            kNeedsMemory | kChoosesSettings);
  flags.Add(
      "accumulation_steps", &accumulation_steps, Integer(1, kMaxSteps),
      "Takes this number of batches of a rank in one step.\nMost strategies add their gradients before they "
      "average them.",
      kNeedsMemory | kChoosesSettings);
  flags.Add("seq_len", &seq_lens, Integer(1), "Makes sequences of this number of tokens.",
            kNeedsMemory | kChoosesSettings | kOfSequences);
  flags.Add(
      "corpus", &corpus, Path(learns ? "a text file, or a directory of them" : "a text file"),
      learns ? "Learns this text, whose bytes are the tokens, instead of this machine's C++ headers.\nOf a "
               "file the last tenth is held out, of a directory every tenth file."
             : "Trains on this text, whose bytes are the tokens, instead of random tokens.",
      kOfSequences);
  if (!learns) {
    flags.Add("image_size", &image_size, Integer(1, kMaxImageSize),
              "Makes images with this number of pixels on each side.\nBelow 80, some CPUs compute the last "
              "layers slowly.",
              kNeedsMemory);
  }

  flags.BeginGroup("Training");
  using enum model::DType;
  flags.Add("dtype", &dtype, OneOf({kF32, kF64, kBF16}),
            "Sets the type of weights, activations and gradients.\nWith bf16 only activations, and what "
            "matrix products "
            "and convolutions read, are bf16; weights, gradients and the optimizer's state are f32.",
            kNeedsMemory);
  if (!learns) {
    flags.Add(
        "tf32", &tf32, Switch(),
        "Lets matrix products of f32 on a GPU round their factors to TF32, for several times the speed.");
  }
  flags.Add("optimizer", &optimizers,
            OneOf({OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kMuon}),
            Join("Updates the weights with this optimizer.\nmuon: Muon updates matrices, and AdamW updates "
                 "embeddings, the output layer and vectors. Strategies that divide matrices among ranks "
                 "reject muon.",
                 learns ? " Each of several optimizers trains every variant." : ""),
            kNeedsMemory);
  flags.Add("learning_rate", &learning_rate, PositiveNumber(), "Sets the optimizer's learning rate.");
}

void TrainingOptions::AddVariantsTo(FlagTable& flags) {
  flags.BeginGroup("What is compared");
  flags.Add(
      "variants", &variants_text, Text("strategy[:option=value,...][@backend], comma separated"),
      "Compares these variants, which take turns.\nOptions: bucket_bytes=12Mi or bucket_elements=3Mi; "
      "clip_norm=1, which scales gradients down if their total norm is larger than 1; and the options that "
      "--help=strategies lists. A variant without a backend runs once for each --backend, and a variant "
      "without a size once for each --bucket_bytes. Default: --strategies.",
      kNeedsMemory | kChoosesRows);
  std::string help = "Compares these ways of averaging gradients.";
  for (const std::string& name : ddp::StrategyNames()) {
    const ddp::Traits& traits = ddp::TraitsOf(name);
    help += Join("\n", name, ": ", traits.summary);
    if (!traits.pytorch_twin.empty()) help += Join("; in PyTorch: ", PyTorchWay(traits.pytorch_twin));
    for (const ddp::Option& option : traits.options) {
      const std::vector<std::string> words(option.words.begin(), option.words.end());
      help += Join("\n    ", option.name, "=", PrintValue(option, option.default_value), ": ", option.meaning,
                   words.empty() ? "" : Join(" (", OneOf(words).takes, ")"));
    }
  }
  flags.Add("strategies", &strategies, OneOf(ddp::StrategyNames()), std::move(help),
            kNeedsMemory | kChoosesRows);
  flags.Add("backend", &backends, OneOf(comm::BackendNames()), "Moves the gradients over these backends.",
            kNeedsMemory | kChoosesRows);
  if (!sweep) {
    flags.Add("bucket_bytes", &bucket_bytes, Bytes(), "Puts at most this number of bytes into a bucket.",
              kNeedsMemory | kChoosesRows);
    return;
  }
  flags.Add("buffer_elements", &sweep->buffer_elements, Elements(), "Compares these sizes of a bucket.",
            kNeedsMemory | kChoosesRows);
  flags.Add("units", &sweep->in_published_units, OneOf<bool>({{"bytes", false}, {"published", true}}),
            "Counts sizes in these units.\nbytes: buckets of as many bytes for every strategy. published: as "
            "in the "
            "original, whose sizes are MiB for one strategy and Mi elements for the others.",
            kNeedsMemory | kChoosesRows);
}

void TrainingOptions::AddStepsTo(FlagTable& flags) {
  flags.BeginGroup("Steps");
  flags.Add("warmup_steps", &warmup_steps, Integer(0, kMaxSteps),
            "Takes this number of untimed steps of each variant before the timed steps.");
  flags.Add("steps", &steps, Integer(1, kMaxSteps),
            "Takes this number of timed steps of each variant in each setting.", kChoosesRows);
  flags.Add(
      "time", &time, Duration(),
      "Measures each setting for this time, instead of --steps.\nThe time is for all launches of --repeats "
      "together. A launch measures whole blocks of rounds, in which every variant has every position equally "
      "often, and at least one block and ten rounds, even if this takes longer.",
      kChoosesRows);
  flags.Add(
      "precision", &ranks.precision, Percent(),
      "Stops when every interval is within +- this part of the baseline's step.\nThese are the intervals of "
      "differences to the baseline and of costs. They are checked after each launch, from the second on, for "
      "at most --repeats launches (default 4). Intervals are widened for these checks.",
      kChoosesLaunches);
  flags.Add(
      "choose", &ranks.choose, Switch(),
      "Drops variants that the first of three launches shows to be slower than another exact variant.\nThe "
      "later launches (--repeats) have at least the rounds of the first. Intervals of the remaining variants "
      "come from the later launches, intervals of dropped variants from the first. The baseline and `none` "
      "remain.",
      kChoosesLaunches);
  flags.Add("order", &order, OneOf({Order::kInterleaved, Order::kBlocks}),
            "Orders the steps of variants.\ninterleaved: in every round each variant takes one step, in "
            "random order. blocks: one variant after the other.");
  flags.Add("max_memory", &max_memory, Bytes(),
            "Prints which variants of which model fit into this memory for each rank, by estimate.\nNothing "
            "is measured. The estimate is for one variant in its own processes, without --verify. All "
            "resident pages of a rank's process count, including code and libraries, which are 20 to 30 MiB, "
            "or about 180 MiB with the libraries of CUDA. Memory that ranks share counts for each rank.",
            kNeedsMemory);
  flags.Add("repeats", &ranks.repeats, Integer(1, kMaxRepeats),
            "Starts all ranks this number of times, one launch after the other.\nEach launch has new "
            "processes, another seed and another order, so that intervals include the variation between "
            "launches.",
            kChoosesLaunches);
}

void TrainingOptions::AddChecksTo(FlagTable& flags) {
  flags.BeginGroup("Checks, traces, profiles");
  flags.Add("verify", &verify, Switch(),
            "Compares each variant, after timing, with one process that trains on the batches of all ranks.");
  flags.Add(
      "check_gradients", &check_gradients, Switch(),
      "Stops at the first gradient of a rank that is NaN or infinite, and names it.\nThe gradient is found "
      "before it is averaged. This reads every gradient once more, so rows have the warning `traced`.");
  flags.Add("trace", &trace, Switch(), "Writes what happened when in the timed steps, for ui.perfetto.dev.");
  flags.Add(
      "profile", &profile, Switch(),
      "Prints where the time of a step goes, by operation, and how fast each computes.\nThe record has the "
      "times too.");
  flags.Add(
      "nvtx", &nvtx, Switch(),
      "Names steps, phases, operations and collectives as NVTX ranges, for Nsight Systems.\nThat is, under "
      "nsys profile --trace=nvtx,cuda,osrt.");
  flags.Add("dump_grads", &dump_grads, Path("a file"),
            "Writes the averaged gradients and the loss of a first step, as safetensors.\nThe step is a step "
            "of the first variant that averages gradients.");
}

}  // namespace gradsync::bench
