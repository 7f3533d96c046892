#include "bench/training/options.h"

#include <algorithm>
#include <utility>

#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/base/error.h"
#include "model/base/units.h"
#include "model/transformer.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;
constexpr int64_t kMaxRepeats = 1000;
constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMebi = int64_t{1} << 20;
constexpr char kResNet[] = "resnet50";

std::vector<std::string> ModelNames(bool learns) {
  std::vector<std::string> names = model::TransformerNames();
  if (!learns) names.emplace_back(kResNet);
  return names;
}

}  // namespace

bool TrainingOptions::on_images() const { return model == kResNet; }

TrainingOptions::TrainingOptions() : strategies(ddp::AllReduceStrategyNames()) {}

TrainingOptions CompareDefaults() {
  TrainingOptions options;
  options.model = kResNet;
  std::erase_if(options.strategies, [](const std::string& name) { return !ddp::TraitsOf(name).has_buckets; });
  std::ranges::reverse(options.strategies);  // the best first: the others are compared with it
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
      // Buckets have exactly the size that is asked for, but in the published experiment.
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
        "scaled: what --help shows, minutes on a CPU. Other flags override either.");
  }
  flags.BeginGroup("Model");
  flags.Add("model", &model, OneOf(ModelNames(learns)), "The model that is trained.");
  flags.Add("num_layers", &num_layers, Integer(1),
            "A transformer's blocks, instead of the model's own number.");
  flags.Add("d_model", &d_model, Integer(1), "A transformer's width, instead of the model's own.");
  flags.Add("d_ff", &d_ff, Integer(1), "A transformer's feed-forward width, instead of the model's own.");
  flags.Add("num_heads", &num_heads, Integer(1),
            "A transformer's attention heads, instead of the model's own number.");
  if (!learns) {
    flags.Add("vocab_size", &vocab_size, Integer(1), "A transformer's vocabulary size, instead of 10000.");
    flags.Add("width", &width, Integer(1), "Channels of ResNet-50's first layer, instead of 64.");
    flags.Add("weights", &weights, Path("a safetensors file"),
              "Initial weights by name, instead of random ones.");
  }

  flags.BeginGroup("Batches");
  flags.Add("batch_size", &batch_sizes, Integer(1), "Sequences, or images, in the batch of one rank.");
  flags.Add("accumulation_steps", &accumulation_steps, Integer(1, kMaxSteps),
            "Batches of a rank in one step.\nMost strategies add their gradients before they average them.");
  flags.Add("seq_len", &seq_lens, Integer(1), "Tokens in a sequence.");
  flags.Add("corpus", &corpus, Path(learns ? "a text file, or a directory of them" : "a text file"),
            learns
                ? "A text to learn, whose bytes are the tokens, instead of this machine's C++ headers.\nOf a "
                  "file the last tenth is held out, of a directory every tenth file."
                : "A text to train on, whose bytes are the tokens, instead of random tokens.");
  if (!learns) {
    flags.Add("image_size", &image_size, Integer(1, kMaxImageSize),
              "Pixels on each side of an image.\nBelow 80, some CPUs compute the last layers slowly.");
  }

  flags.BeginGroup("Training");
  using enum model::DType;
  flags.Add(
      "dtype", &dtype, OneOf({kF32, kF64, kBF16}),
      "The type of weights, activations and gradients.\nWith bf16 only activations, and what matrix products "
      "and convolutions read, are bf16; weights, gradients and the optimizer's state are f32.");
  if (!learns) {
    flags.Add(
        "tf32", &tf32, Switch(),
        "Lets matrix products of f32 on a GPU round their factors to TF32, for several times the speed.");
  }
  flags.Add(
      "optimizer", &optimizers, OneOf({OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kMuon}),
      Join("Which optimizer updates the weights.\nmuon: matrices are updated by Muon (for embeddings, the "
           "output layer and vectors AdamW), which no strategy takes that divides matrices among ranks.",
           learns ? " Of several, each with every variant." : ""));
  flags.Add("learning_rate", &learning_rate, PositiveNumber(), "The optimizer's learning rate.");
}

void TrainingOptions::AddVariantsTo(FlagTable& flags) {
  flags.BeginGroup("What is compared");
  flags.Add(
      "variants", &variants_text, Text("strategy[:option=value,...][@backend], comma separated"),
      "The variants that take turns.\nOptions: bucket_bytes=12Mi or bucket_elements=3Mi; clip_norm=1, which "
      "scales gradients down if the norm of all of them is larger than that; and those that "
      "--help=strategies "
      "lists. A variant without a backend or a size runs once for each of --backend and of --bucket_bytes. "
      "Default: --strategies.");
  std::string help = "Ways of averaging gradients.";
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
  flags.Add("strategies", &strategies, OneOf(ddp::StrategyNames()), std::move(help));
  flags.Add("backend", &backends, OneOf(comm::BackendNames()), "What moves the gradients.");
  if (!sweep) {
    flags.Add("bucket_bytes", &bucket_bytes, Bytes(), "How many bytes a bucket holds at most.");
    return;
  }
  flags.Add("buffer_elements", &sweep->buffer_elements, Elements(), "Sizes of a bucket to compare.");
  flags.Add("units", &sweep->in_published_units, OneOf<bool>({{"bytes", false}, {"published", true}}),
            "What sizes count.\nbytes: buckets of as many bytes for every strategy. published: as in the "
            "original, whose sizes are MiB for one strategy and Mi elements for the others.");
}

void TrainingOptions::AddStepsTo(FlagTable& flags) {
  flags.BeginGroup("Steps");
  flags.Add("warmup_steps", &warmup_steps, Integer(0, kMaxSteps),
            "Untimed steps of each variant before the timed ones.");
  flags.Add("steps", &steps, Integer(1, kMaxSteps), "Timed steps of each variant in each cell.");
  flags.Add(
      "time", &time, Duration(),
      "How long to measure each cell, instead of --steps.\nThat is, all launches of --repeats together. It "
      "measures "
      "whole blocks of rounds; in a block every variant takes every place equally often. A launch measures "
      "at least one block and ten rounds, even if that takes longer.");
  flags.Add(
      "precision", &ranks.precision, Percent(),
      "Stops when every interval is within +- this part of the baseline's step.\nThat is, of differences to "
      "the baseline and of costs. It looks after each launch from the second on. At most --repeats launches, "
      "by default 4. Intervals are widened for so many looks.");
  flags.Add("order", &order, OneOf({Order::kInterleaved, Order::kBlocks}),
            "How variants take turns.\ninterleaved: in every round each variant takes one step, in random "
            "order. blocks: one variant "
            "after the other.");
  flags.Add(
      "max_memory", &max_memory, Bytes(),
      "Prints which variants of which model fit into this memory for each rank, by estimate.\nEach is taken "
      " in processes of its own and without --verify, and measures nothing. All resident pages of a "
      "rank's process count, those of code and libraries too, which are 20 to 30 MiB before it trains, or "
      "about 180 MiB with the libraries of CUDA. Memory that ranks share counts for each of them.");
  flags.Add(
      "repeats", &ranks.repeats, Integer(1, kMaxRepeats),
      "Launches, one after the other.\nEach has fresh processes, another seed and another order, so that "
      "intervals also hold what differs by chance from launch to launch.");
}

void TrainingOptions::AddChecksTo(FlagTable& flags) {
  flags.BeginGroup("Checks, traces, profiles");
  flags.Add("verify", &verify, Switch(),
            "Compares each variant, after timing, with one process that trains on the batches of all ranks.");
  flags.Add(
      "check_gradients", &check_gradients, Switch(),
      "Stops at the first gradient of a rank that is NaN or infinite, and names it.\nIt is found before it "
      "is averaged. This reads every gradient once more, so the steps are flagged `traced`.");
  flags.Add("trace", &trace, Switch(), "Writes what happened when in the timed steps, for ui.perfetto.dev.");
  flags.Add(
      "profile", &profile, Switch(),
      "Prints where the time of a step goes, by operation, and how fast each computes.\nThe record has the "
      "times too.");
  flags.Add(
      "nvtx", &nvtx, Switch(),
      "Names steps, phases, operations and collectives as NVTX ranges, for Nsight Systems.\nThat is, under "
      "nsys profile --trace=nvtx,cuda,osrt.");
  flags.Add(
      "dump_grads", &dump_grads, Path("a file"),
      "Writes the averaged gradients and the loss of a first step, as safetensors.\nThe step is of the first "
      "variant that averages gradients.");
}

}  // namespace gradsync::bench
