#include "bench/training/options.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "bench/timing/nvtx.h"
#include "bench/training/batches.h"
#include "bench/training/memory.h"
#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

constexpr int64_t kMaxSteps = 10'000'000;
constexpr int64_t kMaxRepeats = 1000;
constexpr int64_t kMaxImageSize = 4096;
constexpr int64_t kMebi = int64_t{1} << 20;
constexpr char kResNet[] = "resnet50";

// `learns`: language models alone, as in everything below.
std::vector<std::string> ModelNames(bool learns) {
  std::vector<std::string> names = model::TransformerNames();
  if (!learns) names.emplace_back(kResNet);
  return names;
}

// Sets what no flag was given for.
template <class T>
void SetDefault(const FlagTable& flags, const char* flag, T& target, T value) {
  if (!flags.given(flag)) target = std::move(value);
}

// The published experiment: 25 sizes; 40 iterations, of which 20 count.
void ApplyPublished(const FlagTable& flags, TrainingOptions& options) {
  std::vector<int64_t> sizes;
  for (int64_t mebi = 3; mebi <= 27; ++mebi) sizes.push_back(mebi * kMebi);
  SetDefault(flags, "buffer_elements", options.sweep->buffer_elements, std::move(sizes));
  SetDefault(flags, "batch_size", options.batch_sizes, {32});
  SetDefault(flags, "image_size", options.image_size, int64_t{224});
  SetDefault(flags, "warmup_steps", options.warmup_steps, int64_t{20});
  SetDefault(flags, "steps", options.steps, int64_t{20});
}

// A batch norm needs two pixels or more of each channel.
void CheckPixels(const TrainingOptions& options) {
  const int64_t side = (options.image_size + 31) / 32;  // after five strides of 2
  const int64_t smallest = std::ranges::min(options.batch_sizes);
  Require(smallest * side * side >= 2, "--batch_size=", smallest,
          ": the last layers see one pixel of images of ", options.image_size, " x ", options.image_size,
          ", and cannot be normalised over a batch of it; expected a batch of at least 2, or larger images");
}

// Flags that no variant takes, because each says the same itself.
void RefuseUnused(const FlagTable& flags, std::span<const std::string> texts) {
  bool sends = false, takes_backend = false, takes_bytes = false;
  for (const std::string& text : texts) {
    const Variant given = Variant::Parse(text);
    const ddp::Traits& traits = ddp::TraitsOf(given.strategy);
    sends |= traits.communicates;
    takes_backend |= traits.communicates && given.backend == kNoBackend;
    takes_bytes |= traits.has_buckets && !given.options.contains("bucket_bytes") &&
                   !given.options.contains("bucket_elements");
  }
  Require(takes_backend || !sends || !flags.given("backend"),
          "--backend: every one of --variants names its own, expected one without @backend");
  Require(takes_bytes || !flags.given("bucket_bytes"),
          "--bucket_bytes: none of --variants takes it, expected one with buckets and no size of its own");
}

}  // namespace

TrainingOptions::TrainingOptions() : strategies(ddp::AllReduceStrategyNames()) {}

TrainingOptions CompareDefaults() {
  TrainingOptions options;
  options.model = kResNet;
  std::erase_if(options.strategies, [](const std::string& name) { return !ddp::TraitsOf(name).has_buckets; });
  std::ranges::reverse(options.strategies);  // the best first: the others are compared with it
  options.sweep.emplace();
  options.sweep->buffer_elements = {3 * kMebi, 8 * kMebi, 16 * kMebi, 27 * kMebi};
  options.optimizer = "sgd";
  options.warmup_steps = 2;
  options.steps = 24;  // two blocks of the twelve variants
  return options;
}

std::vector<std::string> Sweep::Variants(const std::vector<std::string>& strategies) const {
  const char* const option = units == "published" ? "published_size" : "bucket_elements";
  std::vector<std::string> variants;
  for (const int64_t size : buffer_elements) {
    for (const std::string& strategy : strategies) {
      const bool has_buckets = ddp::TraitsOf(strategy).has_buckets;
      // Buckets have exactly the size that is asked for, but in the published experiment.
      const bool has_edges = ddp::TraitsOf(strategy).FindOption(ddp::kSmallFirst.name) != nullptr;
      const char* const edges = has_edges && preset != "published" ? "small_first=0,small_last=0," : "";
      if (has_buckets) variants.push_back(Join(strategy, ":", edges, option, "=", FormatCount(size)));
      if (!has_buckets && size == buffer_elements.front()) variants.push_back(strategy);
    }
  }
  return variants;
}

void TrainingOptions::AddTo(FlagTable& flags) {
  AddModelTo(flags, /*learns=*/false);
  AddVariantsTo(flags);
  AddStepsTo(flags);
  ranks.AddTo(flags);
  AddChecksTo(flags);
  peers.AddTo(flags);
}

void TrainingOptions::AddLearningTo(FlagTable& flags) {
  AddModelTo(flags, /*learns=*/true);
  AddVariantsTo(flags);
  ranks.AddTo(flags);
}

void TrainingOptions::AddModelTo(FlagTable& flags, bool learns) {
  if (sweep) {
    flags.Add("preset", &sweep->preset, OneOf({"scaled", "published"}),
              "published: the original's 25 sizes from 3Mi to 27Mi, batches of 32 images of 224 x 224, 20 "
              "untimed steps and 20 timed ones. scaled: the defaults below, minutes on a CPU. Other flags "
              "override either.");
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
    flags.Add("vocab_size", &vocab_size, Integer(1), "A transformer's vocabulary, instead of 10000.");
    flags.Add("width", &width, Integer(1), "Channels of ResNet-50's first layer, instead of 64.");
    flags.Add("weights", &weights, Path("a safetensors file"),
              "Initial weights by name, instead of random ones.");
  }

  flags.BeginGroup("Batches");
  flags.Add("batch_size", &batch_sizes, Integer(1), "Sequences, or images, in the batch of one rank.");
  flags.Add("accumulation_steps", &accumulation_steps, Integer(1, kMaxSteps),
            "Batches of a rank in one step. Most strategies add their gradients before they average them.");
  flags.Add("seq_len", &seq_lens, Integer(1), "Tokens in a sequence.");
  flags.Add("corpus", &corpus, Path(learns ? "a text file, or a directory of them" : "a text file"),
            learns
                ? "A text to learn, whose bytes are the tokens, instead of this machine's C++ headers. Of a "
                  "file the last tenth is held out, of a directory every tenth file."
                : "A text to train on, whose bytes are the tokens, instead of random tokens.");
  if (!learns) {
    flags.Add("image_size", &image_size, Integer(1, kMaxImageSize),
              "Pixels on each side of an image. Below 80, some CPUs compute the last layers slowly.");
  }

  flags.BeginGroup("Training");
  flags.Add(
      "dtype", &dtype, OneOf({"f32", "f64", "bf16"}),
      "The type of weights, activations and gradients. With bf16 only activations, and what matrix products "
      "and convolutions read, are bf16; weights, gradients and the optimizer's state are f32.");
  if (!learns) {
    flags.Add(
        "tf32", &tf32, Switch(),
        "On a GPU with f32: matrix products may round their factors to TF32, for several times the speed.");
  }
  flags.Add("optimizer", &optimizer, OneOf({"adamw", "sgd"}), "Which optimizer updates the weights.");
  flags.Add("learning_rate", &learning_rate, PositiveNumber(), "The optimizer's learning rate.");
}

void TrainingOptions::AddVariantsTo(FlagTable& flags) {
  flags.BeginGroup("What is compared");
  flags.Add(
      "variants", &variants_text, Text("strategy[:option=value,...][@backend], comma separated"),
      "The variants that take turns. Options: bucket_bytes=12Mi or bucket_elements=3Mi; clip_norm=1, which "
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
  flags.Add("units", &sweep->units, OneOf({"bytes", "published"}),
            "bytes: buckets of as many bytes for every strategy. published: as in the original, whose sizes "
            "are MiB for one strategy and Mi elements for the others.");
}

void TrainingOptions::AddStepsTo(FlagTable& flags) {
  times_steps_ = true;
  flags.BeginGroup("Steps");
  flags.Add("warmup_steps", &warmup_steps, Integer(0, kMaxSteps),
            "Untimed steps of each variant before the timed ones.");
  flags.Add("steps", &steps, Integer(1, kMaxSteps), "Timed steps of each variant in each cell.");
  flags.Add(
      "time", &time, Duration(),
      "Instead of --steps: how long to measure each cell, all launches of --repeats together. It measures "
      "whole blocks of rounds; in a block every variant takes every place equally often. A launch measures "
      "at least one block and ten rounds, even if that takes longer.");
  flags.Add(
      "precision", &precision, Percent(),
      "Stops when every interval, of differences to the baseline and of costs, is within +- this part of "
      "the baseline's step. It looks after each launch from the second on. At most --repeats launches, "
      "by default 4. Intervals are widened for so many looks.");
  flags.Add("order", &order, OneOf({"interleaved", "blocks"}),
            "interleaved: in every round each variant takes one step, in random order. blocks: one variant "
            "after the other.");
  flags.Add(
      "max_memory", &max_memory, Bytes(),
      "Memory that each rank may take, such as 4GiB. Prints which variants of which model fit, by estimate, "
      "each in processes of its own and without --verify, and measures nothing. All resident pages of a "
      "rank's process count, those of code and libraries too, which are 20 to 30 MiB before it trains, or "
      "about 180 MiB with the libraries of CUDA. Memory that ranks share counts for each of them.");
  flags.Add(
      "repeats", &ranks.repeats, Integer(1, kMaxRepeats),
      "Launches, one after the other. Each has fresh processes, another seed and another order, so that "
      "intervals also hold what differs by chance from launch to launch.");
}

void TrainingOptions::AddChecksTo(FlagTable& flags) {
  flags.BeginGroup("Checks, traces, profiles");
  flags.Add("verify", &verify, Switch(),
            "After timing, compare each variant with one process that trains on the batches of all ranks.");
  flags.Add("check_gradients", &check_gradients, Switch(),
            "Stop at the first gradient of a rank that is NaN or infinite, before it is averaged, and name "
            "it. This reads every gradient once more, so the steps are flagged `traced`.");
  flags.Add("trace", &trace, Switch(), "Write what happened when in the timed steps, for ui.perfetto.dev.");
  flags.Add(
      "profile", &profile, Switch(),
      "Print where the time of a step goes, by operation, and how fast each computes; the record has the "
      "times too.");
  flags.Add("nvtx", &nvtx, Switch(),
            "Name steps, phases, operations of backward and collectives as NVTX ranges, for Nsight Systems: "
            "nsys profile --trace=nvtx,cuda,osrt.");
  flags.Add(
      "dump_grads", &dump_grads, Path("a file"),
      "Write the averaged gradients and the loss of a first step, as safetensors. The step is of the first "
      "variant that averages gradients.");
}

bool TrainingOptions::on_images() const { return model == kResNet; }

model::TransformerConfig TrainingOptions::transformer_config() const {
  model::TransformerConfig config = model::TransformerByName(model);
  config.num_layers = num_layers.value_or(config.num_layers);
  config.d_model = d_model.value_or(config.d_model);
  config.d_ff = d_ff.value_or(config.d_ff);
  config.num_heads = num_heads.value_or(config.num_heads);
  config.vocab_size = vocab_size.value_or(config.vocab_size);
  config.context_length = longest_seq_len();
  return config;
}

model::ResNetConfig TrainingOptions::resnet_config() const {
  model::ResNetConfig config = model::ResNet50Config();
  config.width = width.value_or(config.width);
  return config;
}

int64_t TrainingOptions::longest_seq_len() const { return std::ranges::max(seq_lens); }

std::vector<std::string> TrainingOptions::GroupBackends() const {
  std::vector<std::string> groups;
  for (const TrainingVariant& variant : variants) {
    const bool is_new = std::ranges::count(groups, variant.over()) == 0;
    if (!variant.is_peer() && variant.traits->communicates && is_new) groups.push_back(variant.over());
  }
  return groups.empty() ? std::vector{backends.front()} : groups;
}

void TrainingOptions::CompleteModel(const FlagTable& flags) {
  const auto refuse = [&](std::initializer_list<const char*> names, const char* what) {
    for (const char* const name : names)
      Require(!flags.given(name), "--", name, ": --model=", model, " takes no ", what);
  };
  if (on_images()) {
    refuse({"seq_len", "corpus"}, "sequences");
    refuse({"num_layers", "d_model", "d_ff", "num_heads", "vocab_size"}, "sizes of a transformer");
    Validate(resnet_config());
    CheckPixels(*this);
    return;
  }
  refuse({"image_size"}, "images");
  refuse({"width"}, "width");
  const model::TransformerConfig config = transformer_config();
  Validate(config);
  if (!corpus.empty()) CorpusTokens(corpus, config.vocab_size, longest_seq_len(), 0);
}

void TrainingOptions::CompleteVariants(const FlagTable& flags) {
  const bool from_text = flags.given("variants");
  for (const char* const name : {"strategies", "buffer_elements", "units"}) {
    Require(!from_text || !flags.given(name), "--", name, ": cannot be given beside --variants");
  }
  const std::vector<std::string> texts = from_text ? Variant::Split(variants_text)
                                         : sweep   ? sweep->Variants(strategies)
                                                   : strategies;
  variants = MakeVariants(
      from_text ? "variants" : "strategies", texts,
      {.backends = backends, .bucket_bytes = bucket_bytes, .element_bytes = SizeOf(gradient_type())});
  if (from_text) RefuseUnused(flags, texts);
  for (const TrainingVariant& variant : variants) {
    Require(!variant.traits->needs_f32 || gradient_type() == model::DType::kF32, "--dtype=", dtype, ": ",
            variant.name(), " takes f32 or bf16");
    Require(!variant.traits->needs_cpu || ranks.device == "cpu", "--device=", ranks.device, ": ",
            variant.name(), " computes on the CPU alone");
    Require(!times_steps_ || ddp::StartOf(*variant.traits, variant.strategy_options()) == 0,
            "--variants: ", variant.name(), ": only //bench:convergence takes ",
            variant.traits->OptionFor(ddp::Option::Role::kStart), ", because timed steps must all be alike");
    const int64_t turn_steps = variant.lead_in_steps() + variant.turn_steps();
    Require(turn_steps == 1 || !(trace || profile), trace ? "--trace: " : "--profile: ", variant.name(),
            " takes ", turn_steps, " steps in a turn, expected one");
    for (const auto& [name, value] : variant.strategy_options().values) {
      const bool is_plain = dtype != "bf16" && ranks.device == "cpu";
      Require(is_plain || !variant.traits->FindOption(name)->plain_only,
              dtype == "bf16" ? "--dtype=bf16: " : Join("--device=", ranks.device, ": "), variant.name(),
              ": ", name, " takes f32 or f64 on the CPU");
    }
  }
  if (!peers.wanted()) return;
  const std::vector<TrainingVariant> all_peers = PeersOf(variants, peers.modes);
  for (const TrainingVariant& peer : all_peers)
    Require(!on_images() || peer.strategy != "fully_shard",
            "--with_peers: PyTorch's fully_shard takes no weights in the layout that is fastest for images, "
            "expected no ",
            peer.traits->name);
  constexpr int64_t kGlooThreads = 2;  // of PyTorch, which has no option for them
  Require(ranks.comm_threads == kGlooThreads ||
              std::ranges::count(all_peers, "gloo", &TrainingVariant::backend) == 0,
          "--comm_threads=", ranks.comm_threads, ": --with_peers takes ", kGlooThreads,
          ", as many as PyTorch has over gloo");
  variants.insert(variants.end(), all_peers.begin(), all_peers.end());
}

void TrainingOptions::CompleteMemory(const FlagTable& flags) {
  Require(ranks.device == "cpu", "--max_memory: expected --device=cpu, found ", ranks.device);
  for (const char* const name : {"precision", "order", "with_peers", "verify"})
    Require(!flags.given(name), "--", name, ": cannot be given beside --max_memory");
  verify = false;
}

void TrainingOptions::Complete(const FlagTable& flags, const comm::World& world) {
  if (sweep && sweep->preset == "published") ApplyPublished(flags, *this);
  CompleteModel(flags);
  CheckPeerOptions(peers, dtype);
  CompleteVariants(flags);
  CheckDevice(ranks, GroupBackends(), world);
  const bool accumulates = std::ranges::max(accumulation_steps) > 1;
  Require(!accumulates || !(peers.wanted() || trace || profile),
          "--accumulation_steps: expected 1 with --with_peers, --trace or --profile");
  Require(!flags.given("time") || !flags.given("steps"), "--steps: cannot be given beside --time");
  if (precision) {
    if (!flags.given("repeats")) ranks.repeats = 4;
    Require(world.launcher == "none" || world.launcher == "self",
            "--precision: needs launches that this program starts, but ", world.launcher,
            " started the ranks");
    Require(ranks.repeats > 2, "--precision: ends between launches, expected --repeats of 3 or more, found ",
            ranks.repeats);
  }
  if (max_memory) CompleteMemory(flags);
  if (time) *time /= ranks.repeats;
  Require(!nvtx || HaveNvtx(), "--nvtx: this program was built without CUDA's toolkit, which has NVTX");
  Require(!tf32 || (ranks.device == "cuda" && dtype == "f32"),
          "--tf32: expected --device=cuda and --dtype=f32, found ", ranks.device, " and ", dtype);
  const std::filesystem::path directory = std::filesystem::path(dump_grads).parent_path();
  std::error_code ignored;
  Require(dump_grads.empty() || std::filesystem::is_directory(directory, ignored),
          "--dump_grads=", dump_grads, ": there is no directory ", directory.string());
  Require(dump_grads.empty() || ranks.repeats == 1,
          "--dump_grads: one launch writes the file, expected --repeats=1, found ", ranks.repeats);
  Require(dump_grads.empty() || !std::ranges::all_of(variants, &TrainingVariant::drifts),
          "--dump_grads: expected a variant that averages gradients");
}

void TrainingOptions::Describe(const TrainingVariant& variant, Record& record) const {
  ConfigFields& config = record.config;
  variant.Describe(record);
  ranks.Describe(config);
  config.Set("dtype", tf32 ? "tf32" : dtype);
  config.Set("order", order);
  config.Set("warmup_steps", warmup_steps);
  if (time) {
    config.Set("time", absl::FormatDuration(absl::FromChrono(*time)));
  } else {
    config.Set("steps", steps);
  }
  if (precision) config.Set("precision", Value(*precision));
  config.Set("optimizer", optimizer);
  config.Set("learning_rate", learning_rate);
  config.Set("traced", trace || profile || nvtx || check_gradients);
}

TrainingSize TrainingOptions::Size() const {
  const int64_t batch_size = std::ranges::max(batch_sizes);
  TrainingSize size = on_images() ? SizeOf(resnet_config(), batch_size, image_size)
                                  : SizeOf(transformer_config(), batch_size * longest_seq_len());
  size.batch *= static_cast<double>(std::ranges::max(accumulation_steps));
  return size;
}

}  // namespace gradsync::bench
