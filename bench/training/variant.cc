#include "bench/training/variant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/launch/flags.h"
#include "bench/peers/options.h"
#include "bench/records/units.h"
#include "comm/factory.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr char kNoBackend[] = "none";
constexpr char kClipNorm[] = "clip_norm";
constexpr char kBytes[] = "bucket_bytes", kElements[] = "bucket_elements", kPublished[] = "published_size";

// One text, with what it leaves out left empty.
struct Parsed {
  const ddp::Traits& traits;
  std::string backend, option;
  int64_t size = 0;
  std::map<std::string, double, std::less<>> values = {};
};

// All of a strategy but those of the capacity of buckets, in the order in which variants name them.
std::vector<ddp::Option> OptionsOf(const ddp::Traits& traits) {
  std::vector<ddp::Option> options(traits.options.begin(), traits.options.end());
  options.insert(options.end(), BenchOptions().begin(), BenchOptions().end());
  return options;
}

std::string Print(const ddp::Option& option, double value) {
  return option.unit == ddp::Option::Unit::kBytes ? FormatCount(static_cast<int64_t>(value))
                                                  : absl::StrFormat("%.15g", value);
}

double ParseValue(const std::string& error_start, const ddp::Option& option, const std::string& text) {
  double value = 0;
  if (option.unit == ddp::Option::Unit::kBytes) {
    const std::optional<int64_t> bytes = Bytes().parse(text);
    Require(bytes.has_value(), error_start, option.name, ": expected ", Bytes().takes);
    value = static_cast<double>(*bytes);
  } else {
    Require(absl::SimpleAtod(text, &value), error_start, option.name, ": found '", text,
            "', expected a number from ", Print(option, option.minimum), " to ",
            Print(option, option.maximum));
  }
  try {
    ddp::CheckValue(option, value);
  } catch (const InvalidInput& error) {
    throw InvalidInput(Join(error_start, error.what()));
  }
  return value;
}

void ParseBucketSize(const std::string& error_start, const std::string& name, const std::string& text,
                     Parsed& parsed) {
  Require(parsed.option.empty(), error_start, "expected one of ", parsed.option, " and ", name);
  const Kind<int64_t> kind = name == kBytes ? Bytes() : Elements();
  const std::optional<int64_t> size = kind.parse(text);
  Require(size.has_value(), error_start, name, ": expected ", kind.takes);
  parsed.option = name;
  parsed.size = *size;
}

Parsed Parse(const std::string& error_start, std::string_view text) {
  const size_t at = text.rfind('@');
  const std::string_view head = text.substr(0, at);
  const size_t colon = head.find(':');
  const std::string strategy(head.substr(0, colon));
  const std::vector<std::string> strategies = ddp::StrategyNames(), backends = comm::BackendNames();
  Require(std::ranges::count(strategies, strategy) > 0, error_start, "unknown strategy '", strategy,
          "', expected ", OneOf(strategies).takes);
  Parsed parsed = {ddp::TraitsOf(strategy), "", "", 0};
  if (at != std::string_view::npos) {
    parsed.backend = text.substr(at + 1);
    Require(parsed.traits.communicates, error_start, strategy, " sends nothing, and takes no backend");
    Require(std::ranges::count(backends, parsed.backend) > 0, error_start, "unknown backend '",
            parsed.backend, "', expected ", OneOf(backends).takes);
  }
  if (colon == std::string_view::npos) return parsed;
  const std::vector<ddp::Option> options = OptionsOf(parsed.traits);
  std::vector<std::string> names;
  for (const ddp::Option& option : options) names.emplace_back(option.name);
  if (parsed.traits.has_buckets) names.insert(names.end(), {kBytes, kElements, kPublished});
  for (const std::string& text_of_option : SplitCommas(head.substr(colon + 1))) {
    const std::pair<std::string, std::string> given = absl::StrSplit(text_of_option, absl::MaxSplits('=', 1));
    const auto& [name, value] = given;
    Require(std::ranges::count(names, name) > 0, error_start, strategy, " has no option '", name,
            "', expected ", OneOf(names).takes);
    const auto option = std::ranges::find(options, name, &ddp::Option::name);
    if (option == options.end()) {
      ParseBucketSize(error_start, name, value, parsed);
      continue;
    }
    Require(name != kClipNorm || parsed.traits.can_clip, error_start, strategy,
            " updates weights before it knows all gradients, and cannot clip them");
    Require(!parsed.values.contains(name), error_start, name, " is given twice");
    parsed.values[name] = ParseValue(error_start, *option, value);
  }
  std::erase_if(parsed.values, [&](const auto& given) {
    return std::ranges::find(options, given.first, &ddp::Option::name)->default_value == given.second;
  });
  return parsed;
}

Variant OwnVariant(const Parsed& parsed, const std::string& backend, const std::string& option, int64_t size,
                   size_t element_bytes) {
  const ddp::Traits& traits = parsed.traits;
  Variant variant = {.strategy = std::string(traits.name),
                     .traits = &traits,
                     .floor = std::string(ddp::FloorTraits().name),
                     .backend = backend,
                     .values = parsed.values};
  if (!traits.has_buckets) return variant;
  const bool counts_bytes = option == kBytes || (option == kPublished && traits.published_in_bytes);
  variant.size = size;
  variant.bucket_bytes = counts_bytes ? size : size * static_cast<int64_t>(element_bytes);
  if (option != kBytes || size != kDefaultBucketBytes) variant.option = option;
  return variant;
}

}  // namespace

std::span<const ddp::Option> BenchOptions() {
  static constexpr double kMostUs = 60e6;
  static constexpr ddp::Option kOptions[] = {
      {.name = kClipNorm,
       .meaning = "the largest norm of all gradients together; 0: no limit",
       .maximum = 1e9},
      {.name = "forward_delay_us", .meaning = "microseconds of useless work in forward", .maximum = kMostUs},
      {.name = "hook_delay_us", .meaning = "the same in the first hook of backward", .maximum = kMostUs},
      {.name = "wait_delay_us", .meaning = "the same after the last wait", .maximum = kMostUs}};
  return kOptions;
}

double Variant::clip_norm() const {
  const auto given = values.find(kClipNorm);
  return given == values.end() ? std::numeric_limits<double>::infinity() : given->second;
}

Delays Variant::delays() const {
  const auto ns = [&](std::string_view delay) {
    const auto given = values.find(delay);
    return given == values.end() ? 0 : static_cast<int64_t>(1e3 * given->second);
  };
  return {ns("forward_delay_us"), ns("hook_delay_us"), ns("wait_delay_us")};
}

std::string Variant::name() const {
  std::vector<std::string> options;
  for (const ddp::Option& each : OptionsOf(*traits)) {
    const auto given = values.find(each.name);
    if (given != values.end()) options.push_back(Join(each.name, "=", Print(each, given->second)));
  }
  if (!option.empty()) options.push_back(Join(option, "=", FormatCount(size)));
  return Join(strategy, options.empty() ? "" : ":", absl::StrJoin(options, ","),
              backend == kNoBackend ? "" : Join("@", backend));
}

ddp::StrategyOptions Variant::strategy_options() const {
  ddp::StrategyOptions options;
  if (bucket_bytes > 0) options.bucket_bytes = static_cast<size_t>(bucket_bytes);
  for (const auto& [name, value] : values) {
    if (traits->FindOption(name) != nullptr) options.values[name] = value;
  }
  return options;
}

void Variant::Describe(Record& record) const {
  record.config.Set("variant", name());
  record.config.Set("strategy", strategy);
  record.config.Set("backend", backend);
  if (bucket_bytes > 0) record.config.Set(kBytes, bucket_bytes);
  if (option == kElements || option == kPublished) record.config.Set(option, size);
  for (const ddp::Option& each : OptionsOf(*traits)) {
    const auto given = values.find(each.name);
    if (given == values.end()) continue;
    const bool is_number = each.unit == ddp::Option::Unit::kNumber;
    record.config.Set(each.name,
                      is_number ? Value(given->second) : Value(static_cast<int64_t>(given->second)));
  }
  record.facts.Set("floor", floor);
  record.facts.Set("agreement", Name(traits->agreement));
  record.facts.Set("overlaps", Value(traits->overlaps));
  if (period() > 1) record.facts.Set("period", period());
  if (delays().total_ns() > 0) record.facts.Set("delay_ns", delays().total_ns());
  if (!is_peer()) return;
  record.facts.Set("peer", "pytorch");
  record.facts.Set("twin", traits->name);
}

std::vector<Variant> MakeVariants(std::string_view flag, std::span<const std::string> texts,
                                  const VariantDefaults& defaults) {
  std::vector<Variant> variants;
  for (const std::string& text : texts) {
    const std::string error_start = Join("--", flag, "=", text, ": ");
    const Parsed parsed = Parse(error_start, text);
    std::vector<std::string> backends = defaults.backends;
    if (!parsed.traits.communicates) backends = {kNoBackend};
    if (!parsed.backend.empty()) backends = {parsed.backend};
    std::vector<int64_t> sizes = defaults.bucket_bytes;
    if (!parsed.option.empty() || !parsed.traits.has_buckets) sizes = {parsed.size};
    for (const std::string& backend : backends) {
      for (const int64_t size : sizes) {
        variants.push_back(OwnVariant(parsed, backend, parsed.option.empty() ? kBytes : parsed.option, size,
                                      defaults.element_bytes));
        Require(std::ranges::count(variants, variants.back().name(), &Variant::name) == 1, error_start,
                variants.back().name(), " is given twice");
      }
    }
  }
  return variants;
}

std::vector<std::string> SplitVariants(std::string_view text) {
  std::vector<std::string> variants;
  for (std::string& part : SplitCommas(text)) {
    const size_t equals = part.find('=');
    if (!variants.empty() && equals != std::string::npos && part.find(':') > equals) {
      variants.back() += "," + part;
    } else {
      variants.push_back(std::move(part));
    }
  }
  return variants;
}

std::vector<Variant> PeersOf(std::span<const Variant> variants, std::span<const std::string> modes) {
  const bool on_nccl = std::ranges::count(variants, "nccl", &Variant::backend) > 0;
  std::vector<Variant> peers;
  for (const Variant& variant : variants) {
    const bool keeps_twin = std::ranges::all_of(variant.strategy_options().values, [&](const auto& given) {
      return variant.traits->FindOption(given.first)->keeps_twin;
    });
    if (variant.traits->pytorch_twin.empty() || !keeps_twin) continue;
    Require(std::isinf(variant.clip_norm()), "--with_peers: PyTorch's twin of ", variant.name(),
            " does not clip gradients, expected no clip_norm");
    for (const std::string& mode : modes) {
      const std::string_view end = mode == "compiled" ? kCompiled : "";
      Variant peer = variant;
      peer.values.clear();
      peer.strategy = Join(kPeerPrefix, variant.traits->pytorch_twin, end);
      peer.floor = Join(kPeerPrefix, ddp::FloorTraits().pytorch_twin, end);
      // It has no other backends.
      if (variant.traits->communicates) peer.backend = on_nccl ? "nccl" : "gloo";
      const std::string size = variant.option.empty() ? "" : Join(":", variant.bucket_bytes);
      peer.peer = Join(variant.traits->pytorch_twin, size, end);
      if (std::ranges::count(peers, peer.peer, &Variant::peer) == 0) peers.push_back(std::move(peer));
    }
  }
  return peers;
}

}  // namespace gradsync::bench
