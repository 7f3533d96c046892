#include "tools/predict/probes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tools/predict/calibrate.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using bench::SampleName;

// How far a launch may be from another where only one was measured: where memory happens to lie is worth so
// much.
constexpr double kAssumedLogError = 0.03;
constexpr double kUnknown = std::numeric_limits<double>::infinity();
constexpr double kMostBesideSeconds = 0.005;  // longer than a thread waits for a processor

// A collective takes from the moment at which the last rank has issued it until it is done on all ranks, as
// in a replay.
ProbeLaunch ReadProbe(const Launch& launch) {
  const Record& any = *launch.front();
  const size_t num_buckets = any.buckets.size(), num_steps = any.samples.at("step_ns").size();
  std::vector<std::vector<double>> times(num_buckets), gaps(num_buckets);
  std::vector<double> totals, after, outside;
  for (size_t s = 0; s < num_steps; ++s) {
    std::vector<double> issued(num_buckets, -kUnknown), done(num_buckets, -kUnknown);
    double computed = -kUnknown, averaged = -kUnknown;
    bool is_known = true;
    for (const Record* const rank : launch) {
      const auto sample = [&](SampleName name) { return Seconds(rank->samples.at(name).at(s)); };
      const auto moment = [&](bench::NameIn<bench::Part::kMoments> name, size_t i) {
        return Seconds(rank->moments.at(name).at(s * num_buckets + i));
      };
      const double begin = BeginOf(*rank, launch, s), end = begin + ComputedSeconds(*rank, s);
      computed = std::max(computed, end);
      averaged = std::max(averaged, end + sample("sync_exposed_ns"));
      for (size_t i = 0; i < num_buckets; ++i) {
        is_known &= moment("ready_ns", i) >= 0;
        const double own = begin + moment("ready_ns", i) + moment("issued_ns", i);
        issued[i] = std::max(issued[i], own);
        done[i] = std::max(done[i], own + moment("started_ns", i) + moment("ended_ns", i));
      }
    }
    if (!is_known) continue;
    double end = computed, total = 0;
    for (size_t i = 0; i < num_buckets; ++i) {
      times[i].push_back(done[i] - issued[i]);
      gaps[i].push_back(issued[i] - end);
      total += times[i].back();
      end = done[i];
    }
    totals.push_back(total);
    after.push_back(averaged - end);
    outside.push_back(averaged - computed - total);
  }
  ProbeLaunch probe{.total_s = TrimmedMean(totals),
                    .processor_s = MeanOver(launch, "communication_cpu_ns"),
                    .after_s = TrimmedMean(after),
                    .outside_s = TrimmedMean(outside),
                    .copies = any.facts.BoolOr("copies_gradients", false)};
  // A small collective seldom takes long, but then it takes milliseconds. Its trimmed mean would lose them;
  // that of all of a step's collectives does not.
  const double typical = probe.total_s / Mean(totals);
  const CollectiveKind kind = KindInStep(any, CollectiveKind::kAllReduce);
  for (size_t i = 0; i < num_buckets; ++i) {
    probe.costs.push_back({.kind = kind,
                           .bytes = static_cast<double>(any.buckets[i].bytes),
                           .seconds = typical * Mean(times[i]),
                           .processor = probe.processor_s / probe.total_s});
    probe.gaps_s.push_back(TrimmedMean(gaps[i]));
  }
  return probe;
}

// Sets what collectives of probes use of processors: so much each, and so much for each byte, by least
// squares over the probes. Where these do not tell both apart all collectives of a probe use alike.
void ShareProcessor(std::vector<ProbeLaunch>* probes) {
  double nn = 0, nb = 0, bb = 0, np = 0, bp = 0;  // sums of products of number, bytes and CPU-seconds
  for (const ProbeLaunch& probe : *probes) {
    const double number = static_cast<double>(probe.costs.size()), bytes = probe.bytes();
    nn += number * number;
    nb += number * bytes;
    bb += bytes * bytes;
    np += number * probe.processor_s;
    bp += bytes * probe.processor_s;
  }
  const double determinant = nn * bb - nb * nb;
  if (determinant < 1e-3 * nn * bb) return;
  const double each = (np * bb - bp * nb) / determinant, a_byte = (bp * nn - np * nb) / determinant;
  if (each < 0 || a_byte < 0) return;
  for (ProbeLaunch& probe : *probes) {
    for (CollectiveCost& cost : probe.costs) cost.processor = (each + a_byte * cost.bytes) / cost.seconds;
  }
}

// So many CPU-seconds as a launch that overlaps used beyond those of its collectives alone, and so many
// seconds that a replay of it, `without` them too short, takes as long as its steps did. Nothing if it has no
// plan.
std::optional<Beside> BesideOf(const Launch& launch, const Launch& floors, const Calibration& without) {
  const Record& any = *launch.front();
  std::optional<StepPlan> plan = PlanOf(any);
  StepInputs inputs{.plan = plan.value_or(StepPlan{}),
                    .rounds = RoundsOf(floors),
                    .world_size = any.world_size,
                    .calibration = without};
  if (!plan || inputs.rounds.empty()) return std::nullopt;
  for (const int64_t bytes : floors.front()->parameter_bytes)
    inputs.parameter_bytes.push_back(static_cast<double>(bytes));
  double used = MeanOver(launch, "communication_cpu_ns");
  for (const auto& [parameters, bytes, kind] : inputs.plan.buckets)
    used -= without.link.Seconds(kind, bytes) * without.link.Processor(kind, bytes, 1);
  Beside beside{.processor_s = std::max(0.0, used / static_cast<double>(inputs.plan.buckets.size()))};
  const Ends ends = EndsOf(
      launch, [](const Record& rank, size_t step) { return Seconds(rank.samples.at("step_ns").at(step)); });
  const double step_s = ends.mean + ends.late;
  double low = 0, high = kMostBesideSeconds;
  for (int i = 0; i < 10; ++i) {
    beside.seconds = (low + high) / 2;
    inputs.calibration.link.set_beside(beside);
    (TypicalStep(inputs) < step_s ? low : high) = beside.seconds;
  }
  return beside;
}

// The mean of what several launches said.
double Said(const std::vector<double>& values) { return values.empty() ? 0 : std::max(0.0, Mean(values)); }

}  // namespace

ProbeReader::ProbeReader(const Records& floors) {
  for (const Launch& launch : LaunchesOf(floors)) floors_[launch.front()->run_id] = launch;
}

void ProbeReader::Add(const Launch& launch) {
  const Record& any = *launch.front();
  const auto floor = floors_.find(any.run_id);
  if (floor == floors_.end() || any.buckets.empty() || !Has(any, {"sync_exposed_ns", "hooks_ns"})) return;
  const double bytes = static_cast<double>(any.facts.IntOr("gradient_bytes", 0));
  const auto longer = [&](SampleName name) { return MeanOver(launch, name) - MeanOver(floor->second, name); };
  const bool copies = any.facts.BoolOr("copies_gradients", false);
  const bool overlaps = any.facts.BoolOr("overlaps", true);
  if (overlaps && any.buckets.size() > 1) {
    const auto [mean, late] = EndsOf(launch, ComputedSeconds);
    const auto [floor_mean, floor_late] = EndsOf(floor->second, ComputedSeconds);
    overlapping_.push_back(launch);
    late_s_ += late - floor_late;
    longer_s_ += mean - floor_mean;
    return;
  }
  (copies ? copied_optimizer_ : remote_optimizer_).push_back(longer("optimizer_ns") / bytes);
  if (any.facts.BoolOr("places_gradients", false))
    placed_backward_.push_back((longer("backward_ns") + longer("hooks_ns")) / bytes);
  if (overlaps) return;
  probes_.push_back(ReadProbe(launch));
  totals_[any.variant.name()].push_back(std::log(probes_.back().total_s));
}

std::vector<CollectiveCost> ProbeReader::Costs() {
  ShareProcessor(&probes_);
  std::vector<CollectiveCost> costs;
  for (const ProbeLaunch& probe : probes_) costs.insert(costs.end(), probe.costs.begin(), probe.costs.end());
  return costs;
}

void ProbeReader::Complete(Calibration* calibration) const {
  TakeGaps(calibration);
  calibration->placed_backward = Said(placed_backward_);
  calibration->remote_optimizer = Said(remote_optimizer_);
  calibration->copied_optimizer = Said(copied_optimizer_);
  calibration->log_error = LogError();
  // At most as if one of two ranks lost all of it.
  calibration->processors.uneven = longer_s_ > 0 ? std::clamp(late_s_ / longer_s_, 0.0, 1.0) : 0;
  std::vector<double> seconds, processor_s;
  for (const Launch& launch : overlapping_) {
    const std::optional<Beside> beside = BesideOf(launch, floors_.at(launch.front()->run_id), *calibration);
    if (!beside) continue;
    seconds.push_back(beside->seconds);
    processor_s.push_back(beside->processor_s);
  }
  calibration->link.set_beside({Said(seconds), Said(processor_s)});
}

void ProbeReader::TakeGaps(Calibration* calibration) const {
  std::vector<double> waits, scales;
  for (const ProbeLaunch& probe : probes_) {
    if (probe.copies) continue;
    // The work on small gradients is nothing beside the wait.
    constexpr double kSmallBytes = 64 << 10;
    std::vector<double> small;
    for (size_t i = 1; i < probe.costs.size(); ++i) {
      if (probe.costs[i].bytes <= kSmallBytes) small.push_back(probe.gaps_s[i]);
    }
    const double wait_s = small.empty() ? 0 : TrimmedMean(small);
    waits.push_back(wait_s);
    scales.push_back((probe.outside_s - wait_s * static_cast<double>(probe.costs.size())) / probe.bytes());
  }
  const double wait_s = calibration->blocking_s = Said(waits);
  calibration->scale = Said(scales);
  // A copy into or out of a small buffer, which stays in a cache, is faster.
  std::vector<Curve::Point> in, out;
  for (const ProbeLaunch& probe : probes_) {
    if (!probe.copies) continue;
    const double first = probe.costs.front().bytes, last = probe.costs.back().bytes;
    in.emplace_back(first, probe.gaps_s.front() / first);
    for (size_t i = 1; i < probe.costs.size(); ++i) {
      const double bytes = probe.costs[i].bytes;
      if (bytes != probe.costs[i - 1].bytes) continue;
      const double half = std::max(0.0, probe.gaps_s[i] - wait_s) / 2 / bytes;
      in.emplace_back(bytes, half);
      out.emplace_back(bytes, half);
    }
    out.emplace_back(last, std::max(0.0, probe.after_s - wait_s) / last);
  }
  if (in.empty()) return;
  calibration->copy_in = Curve(std::move(in));
  calibration->copy_out = Curve(std::move(out));
}

double ProbeReader::LogError() const {
  double sum = 0, degrees = 0;
  for (const auto& [name, logs] : totals_) {
    const double std = PopulationStd(logs);
    sum += std * std * static_cast<double>(logs.size());
    degrees += static_cast<double>(logs.size()) - 1;
  }
  return degrees > 0 ? std::sqrt(sum / degrees) : kAssumedLogError;
}

}  // namespace gradsync::tools
