#include "tools/measurements/validity.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "model/base/error.h"
#include "tools/statistics/estimates.h"

namespace gradsync::tools {
namespace {

constexpr size_t kFewestForP95 = 20;
constexpr size_t kFewestForP99 = 100;
constexpr double kOutlierMads = 10;
constexpr double kOutlierRelative = 0.05;
constexpr double kRanksMayDifferBy = 0.1;
constexpr double kOfStep = 0.01;
// Other programs may use this fraction of a host's CPU time in a step without a warning.
constexpr double kOthersMayTake = 0.03;
// Less memory than this fraction of the theoretical memory is an error, and not rounding.
constexpr double kPartOfTheory = 0.99;

// The detail of a warning; nullopt if there is no reason for the warning.
using Detail = std::optional<std::string>;

Detail If(bool is_true, std::string detail = "") {
  return is_true ? Detail(std::move(detail)) : std::nullopt;
}

Detail RanksMissing(const Evidence& evidence) {
  const int64_t world_size = evidence.measurement.world_size();
  const int64_t missing = world_size - evidence.measurement.num_ranks;
  return If(missing > 0 && !evidence.measurement.is_published(), Join(missing, "/", world_size));
}

Detail TooFewFor(double percentile, size_t fewest, const Evidence& evidence) {
  const bool has_it = !evidence.times.published || !std::isnan(evidence.times.percentile(percentile));
  return If(has_it && evidence.times.num_steps() < fewest);
}

Detail TooFast(const Evidence& evidence) {
  const double limit = evidence.measurement.record.link.DoubleOr("limit_bytes_per_second", kNaN);
  return If(evidence.bus_bytes_per_second > limit,
            Join(std::llround(evidence.bus_bytes_per_second / 1e9), "GB/s"));
}

// Returns whether ranks differ by more than 10 %, and by more than `least_s`, so that a step shows the
// difference.
bool RanksDiffer(const Series* series, double least_s) {
  if (series == nullptr || series->rank_means.size() < 2) return false;
  const auto [least, most] = std::ranges::minmax(series->rank_means);
  return most > least * (1 + kRanksMayDifferBy) && most - least > least_s;
}

Detail RanksDisagree(const Evidence& evidence) {
  // A step, and every phase that ends with a collective, takes equally long on all ranks.
  const Series* const computed = evidence.measurement.Find(kComputed);
  const bool differ = RanksDiffer(computed == nullptr ? &evidence.times : computed, 0) ||
                      RanksDiffer(evidence.measurement.Find("optimizer_ns"), kOfStep * evidence.times.mean());
  const std::string& nodes = evidence.measurement.numa_nodes;
  return If(differ, nodes.empty() ? "" : "nodes-" + nodes);
}

Detail Throttled(const Evidence& evidence) {
  const Measurement& measured = evidence.measurement;
  return If(measured.throttled_periods > 0, Join(measured.throttled_periods, "/", measured.cpu_periods));
}

Detail SharedCpu(const Evidence& evidence) {
  const bench::Record& record = evidence.measurement.record;
  const int64_t cpus = record.provenance.cpu_count;
  const int64_t threads = evidence.measurement.ranks_on_host * record.config.IntOr("threads_per_rank", 0);
  return If(evidence.measurement.is_on_cpu() && cpus > 0 && threads > cpus,
            Join((threads + cpus - 1) / std::max<int64_t>(cpus, 1)));
}

Detail Oversubscribed(const Evidence& evidence) {
  const bench::Record& record = evidence.measurement.record;
  const int64_t cpus = record.provenance.cpu_count;
  const bool receives = record.variant.backend != bench::kNoBackend;
  const int64_t threads = record.config.IntOr("threads_per_rank", 0) +
                          record.config.IntOr("comm_threads", 0) +
                          (receives ? record.facts.IntOr("receivers", 0) : 0);
  return If(evidence.measurement.is_on_cpu() && cpus > 0 &&
            evidence.measurement.ranks_on_host * threads > cpus);
}

Detail UnitsDiffer(const Evidence& evidence) {
  if (evidence.baseline == nullptr) return std::nullopt;
  const bench::Record &own = evidence.measurement.record, &base = evidence.baseline->record;
  const double label = own.variant.NumberOr("published_size", 0);
  const double own_bytes = own.facts.DoubleOr("bucket_bytes", 0);
  const double base_bytes = base.facts.DoubleOr("bucket_bytes", 0);
  const bool is_comparable =
      label > 0 && label == base.variant.NumberOr("published_size", 0) && base_bytes > 0;
  return If(is_comparable && own_bytes != base_bytes, Join(own_bytes / base_bytes, "x"));
}

Detail Disturbed(const Evidence& evidence) {
  const double part = OthersShare(evidence.measurement, evidence.times);
  return If(part > kOthersMayTake, Join(std::llround(100 * part), "%"));
}

struct Check {
  Warning kind;
  std::string_view word;
  std::string_view explanation;
  Detail (*judge)(const Evidence&);
};

// In the order of Warning.
constexpr Check kChecks[] = {
    {Warning::kWorldOfOne, "world=1", "a single rank: nothing was communicated",
     [](const Evidence& evidence) { return If(evidence.measurement.world_size() <= 1); }},
    {Warning::kSharedGpu, "shared-gpu",
     "N ranks shared one GPU: the row shows that they work, and not how fast",
     [](const Evidence& evidence) {
       return If(evidence.measurement.ranks_on_gpu > 1, Join(evidence.measurement.ranks_on_gpu));
     }},
    {Warning::kSharedCpu, "shared-cpu",
     "N compute threads of ranks shared one CPU: the row shows that they work, and not how fast", SharedCpu},
    {Warning::kWrong, "wrong", "N elements of the result had a wrong value",
     [](const Evidence& evidence) {
       const int64_t wrong = evidence.measurement.wrong_elements.value_or(0);
       return If(wrong != 0, Join(wrong));
     }},
    {Warning::kUnequal, "unequal",
     "gradients or parameters differ between ranks or from the reference; N is the tensor that differs "
     "most",
     [](const Evidence& evidence) {
       const Measurement& measured = evidence.measurement;
       const bench::CheckFields& checks = measured.record.checks;
       return If(!measured.is_floor() && !measured.equal().value_or(true),
                 measured.grads_equal.value_or(true) ? checks.StringOr("worst_param", "")
                                                     : checks.StringOr("worst_grad", ""));
     }},
    {Warning::kDrifts, "drifts", "replicas diverge by design: they are not synchronised in every step",
     [](const Evidence& evidence) {
       return If(evidence.measurement.drifts() && evidence.measurement.world_size() != 1);
     }},
    {Warning::kTooFast, "too-fast",
     "more bytes per second than memory or link can carry, so some communication was not measured", TooFast},
    {Warning::kRanksMissing, "ranks-missing",
     "N (missing/all ranks): some ranks left no record, and maxima are over the other ranks", RanksMissing},
    {Warning::kStepsDiffer, "steps-differ",
     "ranks have different numbers of steps; the table uses only the steps that all ranks have",
     [](const Evidence& evidence) { return If(evidence.measurement.steps_differ); }},
    {Warning::kRanksDisagree, "ranks-disagree",
     "ranks differ by more than 10 % in mean compute time, optimizer time or time of a collective; if "
     "their NUMA nodes differ, N names them",
     RanksDisagree},
    {Warning::kInBlocks, "in-blocks",
     "strategies took their steps one after the other, so a drifting machine looks like a difference",
     [](const Evidence& evidence) {
       return If(!evidence.measurement.is_published() && evidence.config().StringOr("order", "") == "blocks");
     }},
    {Warning::kDisturbed, "disturbed",
     "other programs, or the kernel's network work, used N of the host's CPU time during the steps",
     Disturbed},
    {Warning::kThrottled, "throttled",
     "the host of a rank had used up its quota of CPU time in N of the quota's periods, and threads waited",
     Throttled},
    {Warning::kOversubscribed, "oversubscribed",
     "ranks x (compute + communication threads) exceed the host's CPUs", Oversubscribed},
    {Warning::kRowsSaveNothing, "rows-save-nothing",
     "rows=1 saves nothing: the batch uses so many rows of the embedding that sending all takes no longer",
     [](const Evidence& evidence) { return If(evidence.facts().DoubleOr("rows_save_bytes", 1) <= 0); }},
    {Warning::kUnitsDiffer, "units-differ",
     "buckets have N times the baseline's bytes: the size was given in another unit", UnitsDiffer},
    {Warning::kBelowTheory, "below-theory",
     "the whole memory is N of what weights, gradients and optimizer state alone need",
     [](const Evidence& evidence) {
       const double part = evidence.facts().DoubleOr("peak_bytes_in_use", kNaN) /
                           evidence.facts().DoubleOr("theory_bytes", kNaN);
       return If(part < kPartOfTheory, Join(std::llround(100 * part), "%"));
     }},
    {Warning::kOneLaunch, "one-launch", "one launch: launch-to-launch variation is unknown (`--repeats`)",
     [](const Evidence& evidence) {
       return If(evidence.measurement.launches.size() < 2 && !evidence.measurement.is_published() &&
                 evidence.measurement.stage() != Stage::kChoosing);
     }},
    {Warning::kOutliers, "outliers",
     "N steps differ from the median by more than 10 scaled median absolute deviations; plain means (*) "
     "include them",
     [](const Evidence& evidence) {
       const size_t outliers = CountOutliers(evidence.times.max, kOutlierMads, kOutlierRelative);
       return If(outliers > 0, Join(outliers));
     }},
    {Warning::kTooFewForInterval, "n<10", "fewer than 10 steps: the interval of the difference is too narrow",
     [](const Evidence& evidence) {
       return If(!evidence.times.published && evidence.times.num_steps() < kFewestForInterval);
     }},
    {Warning::kTooFewForP95, "n<20", "fewer than 20 steps: p95 (*) is an interpolation close to the maximum",
     [](const Evidence& evidence) { return TooFewFor(0.95, kFewestForP95, evidence); }},
    {Warning::kTooFewForP99, "n<100",
     "fewer than 100 steps: p99 (*) is an interpolation close to the maximum",
     [](const Evidence& evidence) { return TooFewFor(0.99, kFewestForP99, evidence); }},
    {Warning::kPublished, "published",
     "figures as published; without samples there is no interval; N names their caveats (docs/published)",
     [](const Evidence& evidence) {
       return If(evidence.measurement.is_published(), evidence.facts().StringOr("caveats", ""));
     }},
    {Warning::kEndedEarly, "ended-early",
     "launches ended when differences were known to `--precision`; intervals are widened for this",
     [](const Evidence& evidence) {
       const auto launches = static_cast<int64_t>(evidence.measurement.launches.size());
       return If(evidence.config().DoubleOr("precision", 0) > 0 &&
                 launches < evidence.facts().IntOr("launches", 0));
     }},
    {Warning::kLeftEarly, "left-early",
     "measured only in the first launch, which chose the rows of the others (`--choose`)",
     [](const Evidence& evidence) { return If(evidence.measurement.stage() == Stage::kChoosing); }},
    {Warning::kTraced, "traced", "times include writing a trace or checking gradients",
     [](const Evidence& evidence) { return If(evidence.config().BoolOr("traced", false)); }},
    {Warning::kDirty, "dirty", "built from files that differ from the commit",
     [](const Evidence& evidence) { return If(evidence.measurement.record.provenance.dirty); }},
};

constexpr bool AreInOrder() {
  for (size_t i = 0; i < std::size(kChecks); ++i) {
    if (kChecks[i].kind != static_cast<Warning>(i)) return false;
  }
  return true;
}
static_assert(AreInOrder());

}  // namespace

bool Has(const Warnings& warnings, Warning warning) {
  return std::ranges::any_of(warnings, [warning](const RowWarning& own) { return own.kind == warning; });
}

std::string_view WordOf(Warning warning) { return kChecks[static_cast<size_t>(warning)].word; }

std::string ExplanationOf(Warning warning) {
  return Join(kChecks[static_cast<size_t>(warning)].explanation, ".");
}

std::string TextOf(const Warnings& warnings) {
  std::string text;
  for (const auto& [warning, detail] : warnings) {
    text += Join(text.empty() ? "" : " ", WordOf(warning), detail.empty() ? "" : ":", detail);
  }
  return text;
}

double OthersShare(const Measurement& measurement, const Series& times) {
  const Series* const others = measurement.Find("others_cpu_ns");
  const auto cpus = static_cast<double>(measurement.record.provenance.cpu_count);
  if (others == nullptr || cpus <= 0) return kNaN;
  const auto steps = static_cast<double>(measurement.turn_steps());
  return others->mean() / (cpus * steps * times.mean());
}

Warnings FindWarnings(const Evidence& evidence) {
  Warnings warnings;
  for (const Check& check : kChecks) {
    if (Detail detail = check.judge(evidence)) warnings.push_back({check.kind, *std::move(detail)});
  }
  return warnings;
}

double BusBandwidth(double bytes, double seconds, int64_t world_size, std::string_view collective) {
  if (!(bytes > 0) || !(seconds > 0)) return kNaN;
  const double algorithm = bytes / seconds;
  if (world_size == 1 || collective == "broadcast") return algorithm;
  const double n = static_cast<double>(world_size);
  return algorithm * (collective == "all_reduce" ? 2 : 1) * (n - 1) / n;
}

}  // namespace gradsync::tools
