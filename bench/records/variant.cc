#include "bench/records/variant.h"

#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/base/error.h"
#include "model/base/units.h"

namespace gradsync::bench {
namespace {

constexpr char kCompiled[] = "_compiled";

// "name" or "name:option=value,...".
std::pair<std::string, Variant::Options> ParseNamed(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string name(text.substr(0, colon));
  Variant::Options options;
  if (colon == std::string_view::npos) return {name, options};
  const std::vector<std::string> parts =
      absl::StrSplit(std::string(text.substr(colon + 1)), absl::ByAnyChar(":,"));
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    Require(equals != std::string::npos, "'", part, "': expected option=value");
    const bool is_new = options.emplace(part.substr(0, equals), part.substr(equals + 1)).second;
    Require(is_new, part.substr(0, equals), " is given twice");
  }
  return {name, options};
}

std::string PrintNamed(const std::string& name, const Variant::Options& options) {
  return options.empty() ? name : Join(name, ":", absl::StrJoin(options, ",", absl::PairFormatter("=")));
}

}  // namespace

Variant Variant::Parse(std::string_view text) {
  Variant variant;
  const size_t at = text.find('@');
  std::tie(variant.strategy, variant.options) = ParseNamed(text.substr(0, at));
  variant.backend = kNoBackend;
  if (at != std::string_view::npos)
    std::tie(variant.backend, variant.backend_options) = ParseNamed(text.substr(at + 1));
  absl::string_view strategy = variant.strategy;
  if (absl::ConsumePrefix(&strategy, Join(kPyTorch, "_"))) {
    variant.compiled = absl::ConsumeSuffix(&strategy, kCompiled);
    variant.framework = kPyTorch;
    variant.strategy = std::string(strategy);
  }
  return variant;
}

std::vector<std::string> Variant::Split(std::string_view texts) {
  std::vector<std::string> variants;
  const std::vector<std::string> parts = absl::StrSplit(std::string(texts), ',');
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (!variants.empty() && equals != std::string::npos && part.find(':') > equals) {
      variants.back() += "," + part;
    } else {
      variants.push_back(part);
    }
  }
  return variants;
}

std::string Variant::qualified_strategy() const {
  return Join(framework, framework.empty() ? "" : "_", strategy, compiled ? kCompiled : "");
}

std::string Variant::label() const { return PrintNamed(qualified_strategy(), options); }

std::string Variant::name() const {
  if (backend == kNoBackend || backend.empty()) return label();
  return strategy.empty() ? over() : Join(label(), "@", over());
}

std::string Variant::over() const { return PrintNamed(backend, backend_options); }

double Variant::NumberOr(std::string_view option, double fallback) const {
  const auto given = options.find(option);
  if (given == options.end()) return fallback;
  if (const std::optional<int64_t> count = ParseByteCount(given->second)) return static_cast<double>(*count);
  double number = fallback;
  return absl::SimpleAtod(given->second, &number) ? number : fallback;
}

}  // namespace gradsync::bench
