#include "bench/training/plan.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "absl/time/time.h"
#include "bench/launch/flag_marks.h"
#include "bench/timing/nvtx.h"
#include "bench/training/batches.h"
#include "bench/training/memory.h"
#include "comm/factory.h"
#include "ddp/factory.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

// Sets values whose flags were not given.
template <class T>
void SetDefault(const FlagTable& flags, const char* flag, T& target, T value) {
  if (!flags.given(flag)) target = std::move(value);
}

// The published experiment: 25 sizes; 40 iterations, of which 20 count.
void ApplyPublished(const FlagTable& flags, TrainingPlan& options) {
  std::vector<int64_t> sizes;
  for (int64_t mebi = 3; mebi <= 27; ++mebi) sizes.push_back(mebi << 20);
  SetDefault(flags, "buffer_elements", options.sweep->buffer_elements, std::move(sizes));
  SetDefault(flags, "batch_size", options.batch_sizes, {32});
  SetDefault(flags, "image_size", options.image_size, int64_t{224});
  SetDefault(flags, "warmup_steps", options.warmup_steps, int64_t{20});
  SetDefault(flags, "steps", options.steps, int64_t{20});
}

// A batch norm needs at least two pixels of each channel.
void CheckPixels(const TrainingPlan& options) {
  const int64_t side = (options.image_size + 31) / 32;  // after five strides of 2
  const int64_t smallest = std::ranges::min(options.batch_sizes);
  Require(smallest * side * side >= 2, "--batch_size=", smallest,
          ": the last layers see one pixel of images of ", options.image_size, " x ", options.image_size,
          ", and cannot be normalised over a batch of it; expected a batch of at least 2, or larger images");
}

// Rejects flags that have no effect, because no variant takes the value, or every variant sets it itself.
// `from` names the flag of `texts`.
void RefuseUnused(const FlagTable& flags, const char* from, std::span<const std::string> texts) {
  bool sends = false, has_buckets = false;
  bool takes_backend = false, takes_size = false, takes_rate = false, takes_optimizer = false;
  for (const std::string& text : texts) {
    const Variant given = Variant::Parse(text);
    const ddp::Traits& traits = ddp::TraitsOf(given.strategy);
    const auto sets = [&](const char* option) { return given.options.contains(option); };
    sends |= traits.communicates;
    has_buckets |= traits.has_buckets;
    takes_backend |= traits.communicates && given.backend == kNoBackend;
    takes_size |=
        traits.has_buckets && !sets("bucket_bytes") && !sets("bucket_elements") && !sets("published_size");
    takes_rate |= !sets("learning_rate");
    takes_optimizer |= !sets("optimizer");
  }
  const std::string names_its_own = Join("every one of --", from, " names its own, expected one without ");
  if (sends && !takes_backend) flags.Refuse({"backend"}, names_its_own + "@backend");
  if (!takes_rate) flags.Refuse({"learning_rate"}, names_its_own + "learning_rate");
  if (!takes_optimizer) flags.Refuse({"optimizer"}, names_its_own + "optimizer");
  if (!takes_size)
    flags.Refuse({"bucket_bytes"},
                 Join("none of --", from, " takes it, expected one with buckets and no size of its own"));
  if (!has_buckets) flags.Refuse({"buffer_elements", "units"}, Join("none of --", from, " has buckets"));
}

// --max_memory measures nothing, so flags about measuring have no effect.
void CheckMaxMemory(const TrainingPlan& options, const FlagTable& flags) {
  Require(options.ranks.on_cpu(), "--max_memory: expected --device=cpu, found ", options.ranks.device_name());
  flags.RefuseAllBut(kNeedsMemory, "has no effect with --max_memory");
  if (!options.on_images() && !options.sweep)
    flags.Refuse({"model"}, "has no effect with --max_memory, which is about all transformers");
}

void CheckDumpGrads(const TrainingPlan& options) {
  const std::filesystem::path directory = std::filesystem::path(options.dump_grads).parent_path();
  std::error_code ignored;
  Require(std::filesystem::is_directory(directory, ignored), "--dump_grads=", options.dump_grads,
          ": there is no directory ", directory.string());
  Require(options.ranks.num_launches() == 1,
          "--dump_grads: one launch writes the file, expected --repeats=1, found ",
          options.ranks.num_launches());
  Require(!std::ranges::all_of(options.variants, &TrainingVariant::drifts),
          "--dump_grads: expected a variant that averages gradients");
}

}  // namespace

TrainingPlan::TrainingPlan(const TrainingOptions& given, const FlagTable& flags) : TrainingOptions(given) {
  if (sweep && sweep->is_published) ApplyPublished(flags, *this);
  CheckModel(flags);
  CheckPeerOptions(peers, flags);
  Require(!peers.wanted || dtype != model::DType::kF64, "--dtype=f64: --with_peers takes f32 or bf16");
  AddVariants(flags);
  if (peers.wanted) AddPeers();
  const bool accumulates = std::ranges::max(accumulation_steps) > 1;
  Require(!accumulates || !(peers.wanted || trace || profile),
          "--accumulation_steps: expected 1 with --with_peers, --trace or --profile");
  Require(!flags.given("time") || !flags.given("steps"), "--steps: cannot be given beside --time");
  Require(!ranks.precision || ranks.num_launches() > 2,
          "--precision: ends between launches, expected --repeats of 3 or more, found ",
          ranks.num_launches());
  Require(!ranks.choose || (!ranks.precision && ranks.num_launches() > 1 && interleaved()),
          "--choose: expected --repeats of 2 or more, --order=interleaved and no --precision");
  if (max_memory) CheckMaxMemory(*this, flags);
  Require(!nvtx || HaveNvtx(),
          "--nvtx: this program was built without NVTX: build it with CUDA's toolkit, and with a GPU in the "
          "machine or CUDA_ARCHITECTURES=90 in the environment");
  Require(!tf32 || (!ranks.on_cpu() && dtype == model::DType::kF32),
          "--tf32: expected --device=cuda and --dtype=f32, found ", ranks.device_name(), " and ",
          Name(dtype));
  if (!dump_grads.empty()) CheckDumpGrads(*this);
}

model::TransformerConfig TrainingPlan::transformer_config() const {
  model::TransformerConfig config = model::TransformerByName(model);
  config.num_layers = num_layers.value_or(config.num_layers);
  config.d_model = d_model.value_or(config.d_model);
  config.d_ff = d_ff.value_or(config.d_ff);
  config.num_heads = num_heads.value_or(config.num_heads);
  config.vocab_size = vocab_size.value_or(config.vocab_size);
  config.context_length = longest_seq_len();
  return config;
}

model::ResNetConfig TrainingPlan::resnet_config() const {
  model::ResNetConfig config = model::ResNet50Config();
  config.width = width.value_or(config.width);
  return config;
}

int64_t TrainingPlan::longest_seq_len() const { return std::ranges::max(seq_lens); }

std::vector<std::string> TrainingPlan::GroupBackends() const {
  std::vector<std::string> groups;
  for (const TrainingVariant& variant : variants) {
    const bool is_new = std::ranges::count(groups, variant.over()) == 0;
    if (!variant.is_peer() && variant.traits->communicates && is_new) groups.push_back(variant.over());
  }
  return groups.empty() ? std::vector{backends.front()} : groups;
}

void TrainingPlan::CheckModel(const FlagTable& flags) const {
  const std::string takes_no = Join("--model=", model, " takes no ");
  if (on_images()) {
    flags.Refuse(kOfSequences, takes_no + "sequences");
    Require(optimizers.front() != OptimizerKind::kMuon, "--optimizer=muon: --model=", model,
            " has no matrices, only convolutions");
    flags.Refuse(kOfTransformers, takes_no + "sizes of a transformer");
    Validate(resnet_config());
    CheckPixels(*this);
    return;
  }
  flags.Refuse({"image_size"}, takes_no + "images");
  flags.Refuse({"width"}, takes_no + "width");
  const model::TransformerConfig config = transformer_config();
  Validate(config);
  if (!corpus.empty() && !learns) CorpusTokens(corpus, config.vocab_size, longest_seq_len(), 0);
}

// Checks that the variant can be trained with these options.
void TrainingPlan::CheckVariant(const TrainingVariant& variant) const {
  const bool on_cpu = ranks.on_cpu(), in_bf16 = dtype == model::DType::kBF16;
  Require(!variant.traits->needs_f32 || gradient_type() == model::DType::kF32, "--dtype=", Name(dtype), ": ",
          variant.name(), " takes f32 or bf16");
  Require(!variant.traits->needs_cpu || on_cpu, "--device=cuda: ", variant.name(),
          " computes on the CPU alone");
  Require(learns || !variant.optimizer(), "--variants: ", variant.name(),
          ": only //bench:convergence takes optimizer, expected --optimizer");
  const bool divides = variant.traits->shards_state && variant.traits->divides_matrices;
  Require(OptimizerOf(variant) != OptimizerKind::kMuon || !divides, "--optimizer=muon: ", variant.name(),
          " divides matrices among ranks, and Muon updates whole ones; expected owned, or a strategy that "
          "shards nothing");
  Require(learns || ddp::StartOf(*variant.traits, variant.strategy_options()) == 0,
          "--variants: ", variant.name(), ": only //bench:convergence takes ",
          variant.traits->OptionFor(ddp::Option::Role::kStart), ", because timed steps must all be alike");
  const int64_t turn_steps = variant.lead_in_steps() + variant.turn_steps();
  Require(turn_steps == 1 || !(trace || profile), trace ? "--trace: " : "--profile: ", variant.name(),
          " takes ", turn_steps, " steps in a turn, expected one");
  for (const auto& [name, value] : variant.strategy_options().values)
    Require((on_cpu && !in_bf16) || !variant.traits->FindOption(name)->plain_only,
            in_bf16 ? "--dtype=bf16: " : "--device=cuda: ", variant.name(), ": ", name,
            " takes f32 or f64 on the CPU");
}

void TrainingPlan::AddVariants(const FlagTable& flags) {
  const bool from_text = flags.given("variants");
  if (from_text)
    flags.Refuse({"strategies", "buffer_elements", "units"}, "cannot be given beside --variants");
  std::vector<std::string> texts = from_text ? Variant::Split(variants_text)
                                   : sweep   ? sweep->Variants(strategies)
                                             : strategies;
  const std::vector<std::string> given_texts = texts;
  if (optimizers.size() > 1) {
    Require(learns, "--optimizer: expected one");
    std::vector<std::string> with_each;
    for (const std::string& text : texts) {
      Variant variant = Variant::Parse(text);
      if (variant.options.contains("optimizer")) {
        with_each.push_back(text);
        continue;
      }
      for (const OptimizerKind kind : optimizers) {
        variant.options["optimizer"] = Name(kind);
        with_each.push_back(variant.name());
      }
    }
    texts = std::move(with_each);
  }
  const char* const from = from_text ? "variants" : "strategies";
  variants = MakeVariants(
      from, texts,
      {.backends = backends, .bucket_bytes = bucket_bytes, .element_bytes = SizeOf(gradient_type())});
  RefuseUnused(flags, from, given_texts);
  for (const TrainingVariant& variant : variants) CheckVariant(variant);
}

void TrainingPlan::AddPeers() {
  const std::vector<TrainingVariant> all_peers = MakePeers(variants, peers.modes);
  for (const TrainingVariant& peer : all_peers)
    Require(!on_images() || !peer.traits->shards_values,
            "--with_peers: PyTorch's fully_shard takes no weights in the layout that is fastest for images, "
            "expected no ",
            peer.traits->name);
  constexpr int64_t kThreads = 2;  // number of gloo's threads in PyTorch, which has no option for it
  const std::string backend = PeerBackend(variants);
  Require(ranks.comm_threads == kThreads || !comm::TraitsOf(backend).has_threads ||
              std::ranges::count(all_peers, backend, &TrainingVariant::backend) == 0,
          "--comm_threads=", ranks.comm_threads, ": --with_peers takes ", kThreads,
          ", as many as PyTorch has over ", backend);
  variants.insert(variants.end(), all_peers.begin(), all_peers.end());
}

void TrainingPlan::Describe(const TrainingVariant& variant, Record& record) const {
  ConfigFields& config = record.config;
  variant.Describe(record);
  config.Set("dtype", tf32 ? "tf32" : Name(dtype));
  config.Set("order", Name(order));
  config.Set("warmup_steps", warmup_steps);
  if (time) {
    config.Set("time", absl::FormatDuration(absl::FromChrono(launch_time())));
  } else {
    config.Set("steps", steps);
  }
  config.Set("optimizer", Name(OptimizerOf(variant)));
  config.Set("learning_rate", learning_rate);
  config.Set("traced", trace || profile || nvtx || check_gradients);
}

TrainingSize TrainingPlan::Size() const {
  const int64_t batch_size = std::ranges::max(batch_sizes);
  TrainingSize size = on_images() ? SizeOf(resnet_config(), batch_size, image_size)
                                  : SizeOf(transformer_config(), batch_size * longest_seq_len());
  size.batch *= static_cast<double>(std::ranges::max(accumulation_steps));
  return size;
}

}  // namespace gradsync::bench
