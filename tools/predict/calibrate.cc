#include "tools/predict/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using bench::SampleName;

// How far a launch may be from another where only one was measured: where memory happens to lie is worth so
// much.
constexpr double kAssumedLogError = 0.03;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

bool Has(const Record& record, std::initializer_list<SampleName> names) {
  return std::ranges::all_of(names, [&](SampleName name) { return record.samples.contains(name); });
}

std::vector<double> SecondsOf(const Record& record, SampleName name) {
  std::vector<double> seconds;
  for (const int64_t ns : record.samples.at(name)) seconds.push_back(Seconds(ns));
  return seconds;
}
double TypicalOf(const Record& record, SampleName name) { return TrimmedMean(SecondsOf(record, name)); }

// The ranks' records of one launch of one variant or collective.
using Launch = Records;
std::vector<Launch> LaunchesOf(const Records& records) {
  std::map<std::string, Launch> launches;
  for (const Record* const record : records) {
    const std::string size = std::to_string(record->config.IntOr("size_bytes", 0));
    launches[record->run_id + record->variant.name() + record->config.StringOr("collective", "") + size +
             "," + std::to_string(record->config.IntOr("in_flight", 1))]
        .push_back(record);
  }
  std::vector<Launch> all;
  for (auto& [key, launch] : launches) all.push_back(std::move(launch));
  return all;
}

double MeanOver(const Launch& launch, SampleName name) {
  std::vector<double> ranks;
  for (const Record* const rank : launch) ranks.push_back(TypicalOf(*rank, name));
  return Mean(ranks);
}

// In each step the rank that came last waited least.
double TimeOfCollective(const Launch& launch) {
  std::vector<double> least = SecondsOf(*launch.front(), "time_ns");
  for (const Record* const rank : launch) {
    const std::vector<double> own = SecondsOf(*rank, "time_ns");
    for (size_t i = 0; i < std::min(least.size(), own.size()); ++i) least[i] = std::min(least[i], own[i]);
  }
  return TrimmedMean(least);
}

// Sweeps, outside of any step.
std::vector<CollectiveCost> SweepOf(const Records& records) {
  std::vector<CollectiveCost> costs;
  for (const Launch& launch : LaunchesOf(records)) {
    const Record& any = *launch.front();
    const std::string name = any.config.StringOr("collective", "");
    if (name == "broadcast" || !Has(any, {"time_ns", "communication_cpu_ns"})) continue;
    const double seconds = TimeOfCollective(launch);
    costs.push_back({.kind = KindOf(name),
                     .in_flight = static_cast<int>(any.config.IntOr("in_flight", 1)),
                     .bytes = static_cast<double>(any.config.IntOr("size_bytes", 0)),
                     .seconds = seconds,
                     .processor = MeanOver(launch, "communication_cpu_ns") / MeanOver(launch, "time_ns")});
  }
  return costs;
}

// A launch of a strategy that sends after backward, in seconds.
struct ProbeLaunch {
  std::vector<CollectiveCost> costs = {};  // by bucket
  double total_s = 0;                      // of all collectives
  // What the rank that computes does before each is issued: from the end of backward, or of the one before.
  std::vector<double> gaps_s = {};
  double after_s = 0;  // from the end of the last one until all is averaged
};

// Typical values over the steps of all ranks, by bucket.
class ByBucket {
 public:
  explicit ByBucket(size_t num_buckets) : values_(num_buckets) {}
  void Add(size_t bucket, double value) { values_[bucket].push_back(value); }
  std::vector<double> Typical() const {
    std::vector<double> typical;
    for (const std::vector<double>& values : values_) typical.push_back(TrimmedMean(values));
    return typical;
  }

 private:
  std::vector<std::vector<double>> values_;
};

ProbeLaunch ReadProbe(const Launch& launch) {
  const Record& any = *launch.front();
  const size_t num_buckets = any.buckets.size(), num_steps = any.samples.at("step_ns").size();
  ByBucket times(num_buckets), gaps(num_buckets), after(1);
  for (size_t s = 0; s < num_steps; ++s) {
    std::vector<double> least(num_buckets, kUnknown);
    for (const Record* const rank : launch) {
      const auto sample = [&](SampleName name) { return Seconds(rank->samples.at(name).at(s)); };
      const auto moment = [&](bench::NameIn<bench::Part::kMoments> name, size_t i) {
        return Seconds(rank->moments.at(name).at(s * num_buckets + i));
      };
      double last_end =
          sample("begin_step_ns") + sample("forward_ns") + sample("backward_ns") + sample("hooks_ns");
      const double averaged = last_end + sample("sync_exposed_ns");
      for (size_t i = 0; i < num_buckets && moment("ready_ns", i) >= 0; ++i) {
        const double issued = moment("ready_ns", i) + moment("issued_ns", i);
        const double seconds = moment("started_ns", i) + moment("ended_ns", i);
        gaps.Add(i, issued - last_end);
        // The rank that came last waited least.
        least[i] = std::min(least[i], seconds);
        last_end = issued + seconds;
      }
      after.Add(0, averaged - last_end);
    }
    for (size_t i = 0; i < num_buckets; ++i) {
      if (least[i] < kUnknown) times.Add(i, least[i]);
    }
  }
  ProbeLaunch probe{.gaps_s = gaps.Typical(), .after_s = after.Typical().front()};
  const std::vector<double> seconds = times.Typical();
  for (const double one : seconds) probe.total_s += one;
  const double processor = MeanOver(launch, "communication_cpu_ns") / probe.total_s;
  for (size_t i = 0; i < num_buckets; ++i) {
    probe.costs.push_back(
        {.bytes = static_cast<double>(any.buckets[i].bytes), .seconds = seconds[i], .processor = processor});
  }
  return probe;
}

// The mean of what several launches said; 0 of none.
class Average {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? 0 : std::max(0.0, sum_ / count_); }

 private:
  double sum_ = 0;
  int count_ = 0;
};

// Reads the launches of probes one after the other.
class ProbeReader {
 public:
  explicit ProbeReader(const Records& floors) {
    for (const Launch& launch : LaunchesOf(floors)) floors_[launch.front()->run_id] = launch;
  }

  void Add(const Launch& launch) {
    const Record& any = *launch.front();
    const auto floor = floors_.find(any.run_id);
    if (floor == floors_.end() || any.buckets.empty() || !Has(any, {"sync_exposed_ns", "hooks_ns"})) return;
    const double bytes = static_cast<double>(any.facts.IntOr("gradient_bytes", 0));
    const auto longer = [&](SampleName name) {
      return MeanOver(launch, name) - MeanOver(floor->second, name);
    };
    const bool copies = any.facts.BoolOr("copies_gradients", false);
    (copies ? copied_optimizer : remote_optimizer).Add(longer("optimizer_ns") / bytes);
    if (any.facts.BoolOr("places_gradients", false))
      placed_backward.Add((longer("backward_ns") + longer("hooks_ns")) / bytes);
    if (any.facts.BoolOr("overlaps", true)) return;
    const ProbeLaunch probe = ReadProbe(launch);
    costs.insert(costs.end(), probe.costs.begin(), probe.costs.end());
    totals_[any.variant.name()].push_back(std::log(probe.total_s));
    TakeGaps(probe, copies);
  }

  // How far launches of the same variant are apart, as a standard deviation of the logarithm.
  double LogError() const {
    double sum = 0, degrees = 0;
    for (const auto& [name, logs] : totals_) {
      const double std = PopulationStd(logs);
      sum += std * std * static_cast<double>(logs.size());
      degrees += static_cast<double>(logs.size()) - 1;
    }
    return degrees > 0 ? std::sqrt(sum / degrees) : kAssumedLogError;
  }

  std::vector<CollectiveCost> costs;
  Average copy_in, copy_out, scale, placed_backward, remote_optimizer, copied_optimizer, blocking;

 private:
  // Before the first collective lies work for its bytes; before a later one also what the wait for the one
  // before takes beyond its end and, of copies, the work for its result.
  void TakeGaps(const ProbeLaunch& probe, bool copies) {
    double bytes = 0, gaps_s = 0;
    for (const CollectiveCost& cost : probe.costs) bytes += cost.bytes;
    for (const double gap : probe.gaps_s) gaps_s += gap;
    const double num_buckets = static_cast<double>(probe.costs.size());
    if (copies) {
      const double in = probe.gaps_s.front() / probe.costs.front().bytes;
      copy_in.Add(in);
      copy_out.Add((gaps_s + probe.after_s) / bytes - in);
      return;
    }
    // The work on small gradients is nothing beside the wait.
    constexpr double kSmallBytes = 64 << 10;
    std::vector<double> small;
    for (size_t i = 1; i < probe.costs.size(); ++i) {
      if (probe.costs[i].bytes <= kSmallBytes) small.push_back(probe.gaps_s[i]);
    }
    const double wait_s = small.empty() ? 0 : TrimmedMean(small);
    blocking.Add(wait_s);
    scale.Add((gaps_s + probe.after_s - wait_s * num_buckets) / bytes);
  }

  std::map<std::string, Launch> floors_;  // by run
  std::map<std::string, std::vector<double>> totals_;
};

// Sweeps say how many in flight, and other kinds, compare with one all-reduce of the same size; probes what
// that takes inside a step.
LinkCosts CostsOf(std::vector<CollectiveCost> probes, const std::vector<CollectiveCost>& sweeps,
                  int channels) {
  if (sweeps.empty()) return LinkCosts(probes, channels);
  if (probes.empty()) return LinkCosts(sweeps, channels);
  const LinkCosts alone(sweeps, channels), inside(probes, channels);
  for (CollectiveCost cost : sweeps) {
    if (cost.kind == CollectiveKind::kAllReduce && cost.in_flight == 1) continue;
    const CollectiveKind like = CollectiveKind::kAllReduce;
    cost.seconds *= inside.Seconds(like, cost.bytes) / alone.Seconds(like, cost.bytes);
    const double used = alone.Processor(like, cost.bytes, 1);
    if (used > 0) cost.processor *= inside.Processor(like, cost.bytes, 1) / used;
    probes.push_back(cost);
  }
  return LinkCosts(probes, channels);
}

StepPlan::Updates UpdatesOf(const std::string& name) {
  return name == "parts"       ? StepPlan::Updates::kParts
         : name == "by_bucket" ? StepPlan::Updates::kByBucket
                               : StepPlan::Updates::kWhole;
}

}  // namespace

std::optional<Calibration> CalibrationOf(const Records& records, std::string_view backend) {
  Records sweeps, floors, probes;
  for (const Record* const record : records) {
    const bool is_floor = record->variant.strategy == record->facts.StringOr("floor", "");
    if (record->experiment == "ddp" && is_floor) floors.push_back(record);
    if (record->variant.backend != backend) continue;
    if (record->experiment == "all_reduce") sweeps.push_back(record);
    if (record->experiment == "ddp" && !is_floor) probes.push_back(record);
  }
  ProbeReader reader(floors);
  for (const Launch& launch : LaunchesOf(probes)) reader.Add(launch);
  const std::vector<CollectiveCost> swept = SweepOf(sweeps);
  if (reader.costs.empty() && swept.empty()) return std::nullopt;
  const Record& any = *(sweeps.empty() ? probes : sweeps).front();
  // Shared memory has one communication thread, whatever was asked for.
  const bool has_threads = backend != "shm" && backend != "hierarchical";
  const int channels = has_threads ? static_cast<int>(any.config.IntOr("comm_threads", 1)) : 1;
  const double threads = static_cast<double>(any.config.IntOr("threads_per_rank", 1));
  Calibration calibration{.link = CostsOf(reader.costs, swept, channels)};
  std::set<int64_t> on_host;
  for (const Record* const record : records) {
    if (record->run_id == any.run_id && record->provenance.host == any.provenance.host)
      on_host.insert(record->rank);
  }
  const double cpus = static_cast<double>(any.provenance.cpu_count);
  calibration.processors = {cpus / static_cast<double>(on_host.size()), threads};
  calibration.copy_in = reader.copy_in.value();
  calibration.copy_out = reader.copy_out.value();
  calibration.scale = reader.scale.value();
  calibration.placed_backward = reader.placed_backward.value();
  calibration.remote_optimizer = reader.remote_optimizer.value();
  calibration.copied_optimizer = reader.copied_optimizer.value();
  calibration.blocking_s = reader.blocking.value();
  calibration.log_error = reader.LogError();
  return calibration;
}

std::vector<std::vector<Round>> RoundsOf(const Records& floors) {
  std::vector<std::vector<Round>> ranks;
  for (Launch& launch : LaunchesOf(floors)) {
    std::ranges::sort(launch, {}, &Record::rank);
    ranks.resize(std::max(ranks.size(), launch.size()));
    size_t num_rounds = std::numeric_limits<size_t>::max();
    for (const Record* const rank : launch) {
      const std::vector<int64_t>* const ready = rank->moments.Find("gradient_ready_ns");
      if (ready == nullptr || rank->parameter_bytes.empty() || launch.size() < ranks.size()) return {};
      if (!Has(*rank, {"begin_ns", "begin_step_ns", "backward_ns", "hooks_ns"})) return {};
      num_rounds = std::min(
          {num_rounds, ready->size() / rank->parameter_bytes.size(), rank->samples.at("step_ns").size()});
    }
    for (size_t r = 0; r < launch.size(); ++r) {
      const Record& rank = *launch[r];
      const size_t num_parameters = rank.parameter_bytes.size();
      const std::vector<int64_t>& ready_ns = rank.moments.at("gradient_ready_ns");
      for (size_t s = 0; s < num_rounds; ++s) {
        const auto sample = [&](SampleName name) { return Seconds(rank.samples.at(name)[s]); };
        Round& round = ranks[r].emplace_back();
        round.begin_s = sample("begin_ns");
        round.forward_s = sample("begin_step_ns") + sample("forward_ns");
        round.backward_s = sample("backward_ns") + sample("hooks_ns");
        round.optimizer_s = sample("optimizer_ns");
        round.rest_s = sample("step_ns") - round.forward_s - round.backward_s - round.optimizer_s;
        for (size_t p = 0; p < num_parameters; ++p)
          round.ready_s.push_back(Seconds(ready_ns[s * num_parameters + p]) - round.forward_s);
      }
    }
  }
  return ranks;
}

std::optional<StepPlan> PlanOf(const Record& record) {
  const bench::FactFields& facts = record.facts;
  const auto is_known = [](const bench::BucketRecord& bucket) { return !bucket.parameters.empty(); };
  if (record.buckets.empty() || !std::ranges::all_of(record.buckets, is_known)) return std::nullopt;
  if (facts.StringOr("agreement", "") != "exact" || facts.Find("updates") == nullptr) return std::nullopt;
  StepPlan plan;
  plan.sends =
      facts.BoolOr("overlaps", false) ? StepPlan::Sends::kDuringBackward : StepPlan::Sends::kAfterBackward;
  plan.updates = UpdatesOf(facts.StringOr("updates", ""));
  plan.copies = facts.BoolOr("copies_gradients", false);
  plan.scales = facts.BoolOr("scales_gradients", false);
  plan.places_gradients = facts.BoolOr("places_gradients", false);
  plan.period = facts.IntOr("period", 1);
  for (const bench::BucketRecord& bucket : record.buckets) {
    PlannedBucket& planned = plan.buckets.emplace_back();
    planned.bytes = static_cast<double>(bucket.bytes);
    planned.kind = KindOf(bucket.collective);
    planned.parameters.assign(bucket.parameters.begin(), bucket.parameters.end());
  }
  // Gathers before what is reduced are for forward, which the model does not know.
  const bool gathers_first = plan.buckets.front().kind == CollectiveKind::kAllGather;
  if (plan.updates == StepPlan::Updates::kParts && gathers_first) return std::nullopt;
  return plan;
}

}  // namespace gradsync::tools
