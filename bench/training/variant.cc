#include "bench/training/variant.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "comm/factory.h"
#include "model/base/error.h"
#include "model/base/flags.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

constexpr char kClipNorm[] = "clip_norm", kLearningRate[] = "learning_rate", kOptimizer[] = "optimizer";
constexpr char kBytes[] = "bucket_bytes", kElements[] = "bucket_elements", kPublished[] = "published_size";

// Returns all options of a strategy, except the capacity of buckets.
std::vector<ddp::Option> OptionsOf(const ddp::Traits& traits) {
  std::vector<ddp::Option> options(traits.options.begin(), traits.options.end());
  options.insert(options.end(), BenchOptions().begin(), BenchOptions().end());
  return options;
}

double ParseValue(const ddp::Option& option, const std::string& text) {
  double value = 0;
  if (!option.words.empty()) {
    const std::vector<std::string> words(option.words.begin(), option.words.end());
    const auto found = std::ranges::find(words, text);
    Require(found != words.end(), option.name, ": found '", text, "', expected ", OneOf(words).takes);
    return static_cast<double>(found - words.begin());
  }
  Require(absl::SimpleAtod(text, &value), option.name, ": found '", text, "', expected a number from ",
          PrintValue(option, option.range.from), " to ", PrintValue(option, option.range.to));
  ddp::CheckValue(option, value);
  return value;
}

void SetBucketSize(const std::string& option, int64_t size, size_t element_bytes, TrainingVariant& variant) {
  const bool counts_bytes = option == kBytes || (option == kPublished && variant.traits->published_in_bytes);
  variant.bucket_bytes = counts_bytes ? size : size * static_cast<int64_t>(element_bytes);
  variant.options.erase(option);
  if (option != kBytes || size != kDefaultBucketBytes) variant.options[option] = FormatCount(size);
}

// Returns the names of all options of a strategy.
std::vector<std::string> OptionNames(const ddp::Traits& traits) {
  std::vector<std::string> names;
  for (const ddp::Option& option : OptionsOf(traits)) names.emplace_back(option.name);
  if (traits.has_buckets) names.insert(names.end(), {kBytes, kElements, kPublished});
  return names;
}

void CheckStrategy(const std::string& strategy) {
  const std::vector<std::string> known = ddp::StrategyNames();
  Require(std::ranges::count(known, strategy) > 0, "unknown strategy '", strategy, "', expected ",
          OneOf(known).takes, DidYouMean(strategy, known));
}

// Checks the backend that a variant names, and the backend's options.
void CheckBackend(const Variant& named, const ddp::Traits& traits) {
  const std::vector<std::string> known = comm::BackendNames(), option_names = OptionNames(traits);
  Require(traits.communicates, traits.name, " sends nothing, and takes no backend");
  Require(std::ranges::count(known, named.backend) > 0, "unknown backend '", named.backend, "', expected ",
          OneOf(known).takes, DidYouMean(named.backend, known));
  for (const auto& [name, text] : named.backend_options)
    Require(std::ranges::count(option_names, name) == 0, "options of ", traits.name,
            " stand before the @: ", traits.name, ":", name, "=", text, "@", named.backend);
  comm::CheckBackendOptions(named.backend, named.backend_options);
}

int64_t ParseSize(const std::string& name, const std::string& text) {
  const Kind<int64_t> kind = name == kBytes ? Bytes() : Elements();
  const std::optional<int64_t> size = kind.parse(text);
  Require(size.has_value(), name, ": expected ", kind.takes);
  return *size;
}

// Sets an option that is not the capacity of buckets.
void SetOption(const ddp::Option& option, const std::string& text, TrainingVariant& variant) {
  Require(option.name != kClipNorm || variant.traits->can_clip, variant.traits->name,
          " updates weights before it knows all gradients, and cannot clip them");
  const double value = ParseValue(option, text);
  if (value == option.default_value) return;
  variant.values[std::string(option.name)] = value;
  variant.options[std::string(option.name)] = PrintValue(option, value);
}

// Returns the training variant for `named`, without the capacity of buckets if `named` does not have it.
TrainingVariant Resolve(const Variant& named, size_t element_bytes) {
  CheckStrategy(named.qualified_strategy());
  const ddp::Traits& traits = ddp::TraitsOf(named.strategy);
  if (named.backend != kNoBackend) CheckBackend(named, traits);
  Variant without_options = named;
  without_options.options.clear();
  TrainingVariant variant{std::move(without_options)};
  variant.traits = &traits;
  variant.floor = ddp::FloorTraits().name;
  const std::vector<ddp::Option> options = OptionsOf(traits);
  const std::vector<std::string> names = OptionNames(traits);
  std::string size_option;
  for (const auto& [name, text] : named.options) {
    variant.named.insert(name);
    Require(std::ranges::count(names, name) > 0, traits.name, " has no option '", name, "', expected ",
            OneOf(names).takes, DidYouMean(name, names));
    if (const auto option = std::ranges::find(options, name, &ddp::Option::name); option != options.end()) {
      SetOption(*option, text, variant);
      continue;
    }
    Require(size_option.empty(), "expected one of ", size_option, " and ", name);
    size_option = name;
    SetBucketSize(name, ParseSize(name, text), element_bytes, variant);
  }
  return variant;
}

}  // namespace

std::string PrintValue(const ddp::Option& option, double value) {
  if (!option.words.empty()) return std::string(option.words[static_cast<size_t>(value)]);
  return absl::StrFormat("%.15g", value);
}

std::span<const ddp::Option> BenchOptions() {
  static constexpr ddp::Option kOptions[] = {
      {.name = kOptimizer,
       .meaning = "the optimizer, in //bench:convergence alone; given: the optimizer of --optimizer",
       .words = kOptimizerWords},
      {.name = kClipNorm,
       .meaning = "the largest norm of all gradients together; 0: no limit",
       .has_fractions = true,
       .range = {0, 1e9}},
      {.name = kLearningRate,
       .meaning = "the optimizer's learning rate; 0: the rate of --learning_rate",
       .has_fractions = true,
       .range = {0, 1e3}}};
  return kOptions;
}

double TrainingVariant::clip_norm() const {
  const auto given = values.find(kClipNorm);
  return given == values.end() ? std::numeric_limits<double>::infinity() : given->second;
}

double TrainingVariant::learning_rate() const {
  const auto given = values.find(kLearningRate);
  return given == values.end() ? 0 : given->second;
}

std::optional<OptimizerKind> TrainingVariant::optimizer() const {
  const auto given = values.find(kOptimizer);
  if (given == values.end()) return std::nullopt;
  return static_cast<OptimizerKind>(static_cast<int>(given->second) - 1);
}

std::string TrainingVariant::peer() const {
  return Join(strategy, options.empty() ? "" : Join(":", bucket_bytes), compiled ? kCompiledSuffix : "");
}

ddp::StrategyOptions TrainingVariant::strategy_options() const {
  ddp::StrategyOptions made;
  if (bucket_bytes > 0) made.bucket_bytes = static_cast<size_t>(bucket_bytes);
  for (const auto& [name, value] : values) {
    if (traits->FindOption(name) != nullptr) made.values[name] = value;
  }
  return made;
}

void TrainingVariant::Describe(Record& record) const {
  record.variant = *this;
  if (bucket_bytes > 0) record.facts.Set("bucket_bytes", bucket_bytes);
  record.facts.Set("floor", floor);
  record.facts.Set("agreement", Name(traits->agreement));
  record.facts.Set("overlaps", Value(traits->overlaps));
  if (turn_steps() > 1) {
    record.facts.Set("period", turn_steps());
    record.facts.Set("turn_steps", lead_in_steps() + turn_steps());
  }
  if (!is_peer()) return;
  record.facts.Set("peer", framework);
  record.facts.Set("twin", traits->name);
}

std::vector<TrainingVariant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                          const VariantDefaults& defaults) {
  std::vector<TrainingVariant> variants;
  for (const std::string& text : texts) {
    try {
      const TrainingVariant variant = Resolve(Variant::Parse(text), defaults.element_bytes);
      std::vector<std::string> backends = defaults.backends;
      if (!variant.traits->communicates || variant.backend != kNoBackend) backends = {variant.backend};
      std::vector<int64_t> sizes = defaults.bucket_bytes;
      if (!variant.traits->has_buckets || variant.bucket_bytes > 0) sizes = {0};
      for (const std::string& backend : backends) {
        for (const int64_t size : sizes) {
          TrainingVariant& more = variants.emplace_back(variant);
          more.backend = backend;
          if (size > 0) SetBucketSize(kBytes, size, defaults.element_bytes, more);
          Require(std::ranges::count(variants, more.name(), &TrainingVariant::name) == 1, more.name(),
                  " is given twice");
        }
      }
    } catch (const InvalidInput& error) {
      throw InvalidInput(Join("--", flag, "=", text, ": ", error.what()));
    }
  }
  return variants;
}

std::string PeerBackend(std::span<const TrainingVariant> variants) {
  const std::string_view by_default = comm::BackendTraits().pytorch_backend;
  for (const TrainingVariant& variant : variants) {
    if (variant.is_peer() || variant.backend == kNoBackend) continue;
    const std::string_view own = comm::TraitsOf(variant.backend, variant.backend_options).pytorch_backend;
    if (own != by_default) return std::string(own);
  }
  return std::string(by_default);
}

std::vector<TrainingVariant> MakePeers(std::span<const TrainingVariant> variants,
                                       std::span<const PeerMode> modes) {
  const std::string backend = PeerBackend(variants);
  std::vector<TrainingVariant> peers;
  for (const TrainingVariant& variant : variants) {
    const bool keeps_twin = std::ranges::all_of(variant.strategy_options().values, [&](const auto& given) {
      return variant.traits->FindOption(given.first)->keeps_twin;
    });
    if (variant.traits->pytorch_twin.empty() || !keeps_twin) continue;
    Require(std::isinf(variant.clip_norm()), "--with_peers: PyTorch's twin of ", variant.name(),
            " does not clip gradients, expected no clip_norm");
    Require(variant.learning_rate() == 0, "--with_peers: PyTorch's twin of ", variant.name(),
            " takes the rate of --learning_rate, expected no learning_rate");
    for (const PeerMode mode : modes) {
      TrainingVariant peer = variant;
      for (const auto& [name, value] : variant.values) peer.options.erase(name);
      peer.values.clear();
      peer.framework = kPyTorch;
      peer.compiled = mode == PeerMode::kCompiled;
      peer.strategy = ddp::FloorTraits().pytorch_twin;
      peer.floor = peer.qualified_strategy();
      peer.strategy = variant.traits->pytorch_twin;
      if (variant.traits->communicates) peer.backend = backend;
      if (std::ranges::count(peers, peer.peer(), &TrainingVariant::peer) == 0)
        peers.push_back(std::move(peer));
    }
  }
  return peers;
}

}  // namespace gradsync::bench
