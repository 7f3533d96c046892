#include "tools/records/validity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "model/error.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

constexpr size_t kFewestForP99 = 100;
constexpr double kOutlierMads = 10;
constexpr double kOutlierRelative = 0.05;
constexpr double kRanksMayDifferBy = 0.1;

struct Check {
  std::string_view word;
  std::optional<std::string> (*judge)(const Judged&);
  std::string_view explanation;
};

// In the order in which a row shows them: first what makes it worthless.
constexpr Check kChecks[] = {
    {"world=1", WorldOfOne, "a single rank: nothing was communicated"},
    {"shared-gpu", SharedGpu, "so many ranks on one GPU: shows that they work, and not how fast"},
    {"wrong", WrongElements, "so many elements of the result were not as expected"},
    {"unequal", Unequal, "gradients or parameters differ between ranks or from the reference"},
    {"drifts", Drifts, "no synchronisation: the floor for time, but replicas part"},
    {"too-fast", TooFast,
     "more bytes per second than memory or link can carry, so not all of it was measured"},
    {"ranks-missing", RanksMissing, "so many of so many ranks left no record; maxima are over the others"},
    {"steps-differ", StepsDiffer, "ranks have different numbers of steps; those that all have are used"},
    {"ranks-disagree", RanksDisagree, "the ranks' own mean times differ by more than 10 %"},
    {"oversubscribed", Oversubscribed, "ranks x (compute + communication threads) exceed the host's CPUs"},
    {"units-differ", UnitsDiffer,
     "buckets of so many times the baseline's bytes: the same number was taken in another unit"},
    {"unsynced-timer", UnsyncedTimer,
     "synchronisation was timed without waiting for the end of backward, and holds the tail of it"},
    {"untimed-copies", UntimedCopies,
     "the copies that this strategy needs before and after its collectives were left out of its time"},
    {"no-broadcast", NoBroadcast,
     "the ranks were not given the same first weights and buffers, so they trained different models"},
    {"no-optimizer", NoOptimizer, "a step without optimizer: shares of it are larger than in training"},
    {"rank0-only", RankZeroOnly, "times of rank 0 alone; a step lasts as long as on its slowest rank"},
    {"outlier-cell", nullptr,
     "departs by more than 25 % from what its neighbours and the other strategies "
     "lead to expect"},
    {"outliers", Outliers, "so many steps lie beyond 10 scaled median absolute deviations"},
    {"n<10", TooFewForInterval, "fewer than 10 steps: the interval of the difference is too narrow"},
    {"n<100", TooFewForP99, "fewer than 100 steps: p99 (*) is an interpolation close to the maximum"},
    {"published", Published, "figures as published; without samples there is no interval"},
    {"traced", Traced, "times include the writing of a trace"},
    {"dirty", Dirty, "built from files that differ from the commit"},
};

std::string_view WordOf(std::string_view flag) { return flag.substr(0, flag.find(':')); }

// Peak bytes per second into one GPU from its peers, with a margin for reduction inside the switch.
double GpuLimit(std::string_view gpu) {
  const auto is = [gpu](std::string_view name) { return gpu.find(name) != std::string_view::npos; };
  if (is("B200") || is("B300")) return 1000e9;
  if (is("H100") || is("H200") || is("GH200")) return 500e9;
  if (is("A100")) return 330e9;
  if (is("V100")) return 165e9;
  return 1000e9;
}

}  // namespace

double BusBandwidth(double bytes, double seconds, int64_t world_size) {
  if (!(bytes > 0) || !(seconds > 0)) return std::numeric_limits<double>::quiet_NaN();
  const double n = static_cast<double>(world_size);
  return bytes / seconds * (world_size == 1 ? 1 : 2 * (n - 1) / n);
}

double LimitBytesPerSecond(const bench::Record& record) {
  const double own = record.link.DoubleOr("limit_bytes_per_second", 0);
  if (own > 0) return own;
  const std::string backend = record.config.StringOr("backend", "");
  if (backend == "nccl") return GpuLimit(record.provenance.gpu);
  // Sockets: each byte crosses memory several times on its way. Threads: once or twice.
  return backend == "gloo" ? 50e9 : 400e9;
}

std::optional<std::string> WorldOfOne(const Judged& judged) {
  if (judged.measurement.world_size() > 1) return std::nullopt;
  return "world=1";
}

std::optional<std::string> SharedGpu(const Judged& judged) {
  if (judged.measurement.ranks_on_gpu <= 1) return std::nullopt;
  return Join("shared-gpu:", judged.measurement.ranks_on_gpu);
}

std::optional<std::string> RanksMissing(const Judged& judged) {
  const int64_t world_size = judged.measurement.world_size();
  if (judged.measurement.num_ranks >= world_size || judged.measurement.is_published()) return std::nullopt;
  return Join("ranks-missing:", world_size - judged.measurement.num_ranks, "/", world_size);
}

std::optional<std::string> StepsDiffer(const Judged& judged) {
  if (!judged.measurement.steps_differ) return std::nullopt;
  return "steps-differ";
}

std::optional<std::string> TooFewForInterval(const Judged& judged) {
  if (judged.times.published || judged.times.num_steps() >= kFewestForInterval) return std::nullopt;
  return "n<10";
}

std::optional<std::string> TooFewForP99(const Judged& judged) {
  const bool has_p99 = !judged.times.published || !std::isnan(judged.times.published->p99);
  if (!has_p99 || judged.times.num_steps() >= kFewestForP99) return std::nullopt;
  return "n<100";
}

std::optional<std::string> TooFast(const Judged& judged) {
  if (!(judged.bus_bytes_per_second > LimitBytesPerSecond(judged.measurement.record))) return std::nullopt;
  return Join("too-fast:", std::llround(judged.bus_bytes_per_second / 1e9), "GB/s");
}

std::optional<std::string> Outliers(const Judged& judged) {
  const size_t outliers = CountOutliers(judged.times.max, kOutlierMads, kOutlierRelative);
  if (outliers == 0) return std::nullopt;
  return Join("outliers:", outliers);
}

std::optional<std::string> RanksDisagree(const Judged& judged) {
  const std::vector<double>& means = judged.times.rank_means;
  if (means.size() < 2) return std::nullopt;
  const auto [least, most] = std::minmax_element(means.begin(), means.end());
  if (*most <= *least * (1 + kRanksMayDifferBy)) return std::nullopt;
  return "ranks-disagree";
}

std::optional<std::string> Oversubscribed(const Judged& judged) {
  const bench::Record& record = judged.measurement.record;
  if (record.config.StringOr("device", "") != "cpu" || record.provenance.cpu_count <= 0) return std::nullopt;
  const int64_t threads = record.config.IntOr("threads_per_rank", 0) + record.config.IntOr("comm_threads", 0);
  if (judged.measurement.ranks_on_host * threads <= record.provenance.cpu_count) return std::nullopt;
  return "oversubscribed";
}

std::optional<std::string> WrongElements(const Judged& judged) {
  const int64_t wrong = judged.measurement.wrong_elements.value_or(0);
  if (wrong == 0) return std::nullopt;
  return Join("wrong:", wrong);
}

std::optional<std::string> Unequal(const Judged& judged) {
  if (judged.measurement.is_floor() || judged.measurement.equal().value_or(true)) {
    return std::nullopt;
  }
  return "unequal";
}

std::optional<std::string> Drifts(const Judged& judged) {
  if (!judged.measurement.is_floor() || judged.measurement.world_size() == 1) return std::nullopt;
  return "drifts";
}

std::optional<std::string> Traced(const Judged& judged) {
  if (!judged.measurement.record.config.BoolOr("traced", false)) return std::nullopt;
  return "traced";
}

std::optional<std::string> Published(const Judged& judged) {
  if (!judged.measurement.is_published()) return std::nullopt;
  return "published";
}

std::optional<std::string> RankZeroOnly(const Judged& judged) {
  const bench::Record& record = judged.measurement.record;
  if (record.world_size == 1 || record.facts.StringOr("ranks_behind_times", "") != "rank 0") {
    return std::nullopt;
  }
  return "rank0-only";
}

std::optional<std::string> UnsyncedTimer(const Judged& judged) {
  if (judged.measurement.record.facts.BoolOr("phases_synchronised", true)) return std::nullopt;
  return "unsynced-timer";
}

std::optional<std::string> UntimedCopies(const Judged& judged) {
  if (judged.measurement.record.facts.BoolOr("copies_timed", true)) return std::nullopt;
  return "untimed-copies";
}

std::optional<std::string> NoBroadcast(const Judged& judged) {
  if (judged.measurement.record.facts.BoolOr("replicas_start_equal", true)) return std::nullopt;
  return "no-broadcast";
}

std::optional<std::string> NoOptimizer(const Judged& judged) {
  if (judged.measurement.record.config.StringOr("optimizer", "") != "none") return std::nullopt;
  return "no-optimizer";
}

std::optional<std::string> UnitsDiffer(const Judged& judged) {
  if (judged.baseline == nullptr) return std::nullopt;
  const bench::Fields& own = judged.measurement.record.config;
  const bench::Fields& base = judged.baseline->record.config;
  const int64_t label = own.IntOr("buffer_elements", 0);
  const double own_bytes = own.DoubleOr("bucket_bytes", 0);
  const double base_bytes = base.DoubleOr("bucket_bytes", 0);
  const bool is_comparable = label > 0 && label == base.IntOr("buffer_elements", 0) && base_bytes > 0;
  if (!is_comparable || own_bytes == base_bytes) return std::nullopt;
  return Join("units-differ:", own_bytes / base_bytes, "x");
}

std::optional<std::string> Dirty(const Judged& judged) {
  if (!judged.measurement.record.provenance.dirty) return std::nullopt;
  return "dirty";
}

std::string FlagsOf(const Judged& judged) {
  std::string flags;
  for (const Check& check : kChecks) {
    if (check.judge == nullptr) continue;  // only a whole table can tell
    const std::optional<std::string> flag = check.judge(judged);
    if (flag) flags += (flags.empty() ? "" : " ") + *flag;
  }
  return flags;
}

void Legend::Add(std::string_view flags) {
  std::istringstream words{std::string(flags)};
  for (std::string flag; words >> flag;) seen_.emplace(WordOf(flag));
}

std::vector<std::string> Legend::Lines() const {
  std::vector<std::string> lines;
  for (const Check& check : kChecks) {
    if (seen_.contains(check.word)) lines.push_back(Join("`", check.word, "`: ", check.explanation, "."));
  }
  return lines;
}

}  // namespace gradsync::tools
