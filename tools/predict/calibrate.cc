#include "tools/predict/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
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

// A launch of a strategy that sends after backward: typical values over its steps, in seconds.
struct ProbeLaunch {
  std::vector<CollectiveCost> costs = {};  // by bucket
  double total_s = 0, processor_s = 0;     // of all collectives, and CPU-seconds of a rank
  // By bucket: what is done before it is issued, from the end of backward, or of the one before.
  std::vector<double> gaps_s = {};
  double outside_s = 0;  // from the end of backward until all is averaged, less all collectives
};

// In each step the rank that waited least in all collectives came last, and tells what they take.
ProbeLaunch ReadProbe(const Launch& launch) {
  const Record& any = *launch.front();
  const size_t num_buckets = any.buckets.size(), num_steps = any.samples.at("step_ns").size();
  std::vector<std::vector<double>> times(num_buckets), gaps(num_buckets);
  std::vector<double> totals, outside;
  for (size_t s = 0; s < num_steps; ++s) {
    std::vector<double> least, before;
    double least_s = kUnknown, exposed_s = 0;
    for (const Record* const rank : launch) {
      const auto sample = [&](SampleName name) { return Seconds(rank->samples.at(name).at(s)); };
      const auto moment = [&](bench::NameIn<bench::Part::kMoments> name, size_t i) {
        return Seconds(rank->moments.at(name).at(s * num_buckets + i));
      };
      double end =
          sample("begin_step_ns") + sample("forward_ns") + sample("backward_ns") + sample("hooks_ns");
      std::vector<double> own, own_gaps;
      for (size_t i = 0; i < num_buckets && moment("ready_ns", i) >= 0; ++i) {
        const double issued = moment("ready_ns", i) + moment("issued_ns", i);
        own.push_back(moment("started_ns", i) + moment("ended_ns", i));
        own_gaps.push_back(issued - end);
        end = issued + own.back();
      }
      const double own_s = std::reduce(own.begin(), own.end());
      if (own.size() < num_buckets || own_s >= least_s) continue;
      least_s = own_s;
      exposed_s = sample("sync_exposed_ns");
      least = own;
      before = own_gaps;
    }
    if (least.empty()) continue;
    totals.push_back(least_s);
    outside.push_back(exposed_s - least_s);
    for (size_t i = 0; i < num_buckets; ++i) {
      times[i].push_back(least[i]);
      gaps[i].push_back(before[i]);
    }
  }
  ProbeLaunch probe{.total_s = TrimmedMean(totals), .outside_s = TrimmedMean(outside)};
  probe.processor_s = MeanOver(launch, "communication_cpu_ns");
  // A small collective seldom takes long, but then it takes milliseconds. Its trimmed mean would lose them;
  // that of all of a step's collectives does not.
  const double typical = probe.total_s / Mean(totals);
  for (size_t i = 0; i < num_buckets; ++i) {
    probe.costs.push_back({.bytes = static_cast<double>(any.buckets[i].bytes),
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
    double bytes = 0;
    for (const CollectiveCost& cost : probe.costs) bytes += cost.bytes;
    const double number = static_cast<double>(probe.costs.size());
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

// What several launches said.
struct Sayings : std::vector<double> {
  double mean() const { return empty() ? 0 : std::max(0.0, Mean(*this)); }
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
    (copies ? copied_optimizer : remote_optimizer).push_back(longer("optimizer_ns") / bytes);
    if (any.facts.BoolOr("places_gradients", false))
      placed_backward.push_back((longer("backward_ns") + longer("hooks_ns")) / bytes);
    if (any.facts.BoolOr("overlaps", true)) return;
    const ProbeLaunch& probe = probes_.emplace_back(ReadProbe(launch));
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

  std::vector<CollectiveCost> Costs() {
    ShareProcessor(&probes_);
    std::vector<CollectiveCost> costs;
    for (const ProbeLaunch& probe : probes_)
      costs.insert(costs.end(), probe.costs.begin(), probe.costs.end());
    return costs;
  }

  Sayings copy_in, copy_out, scale, placed_backward, remote_optimizer, copied_optimizer, blocking;

 private:
  // Before the first collective lies work for its bytes; before a later one also what the wait for the one
  // before takes beyond its end and, of copies, the work for its result.
  void TakeGaps(const ProbeLaunch& probe, bool copies) {
    double bytes = 0;
    for (const CollectiveCost& cost : probe.costs) bytes += cost.bytes;
    if (copies) {
      const double in = probe.gaps_s.front() / probe.costs.front().bytes;
      copy_in.push_back(in);
      copy_out.push_back(probe.outside_s / bytes - in);
      return;
    }
    // The work on small gradients is nothing beside the wait.
    constexpr double kSmallBytes = 64 << 10;
    std::vector<double> small;
    for (size_t i = 1; i < probe.costs.size(); ++i) {
      if (probe.costs[i].bytes <= kSmallBytes) small.push_back(probe.gaps_s[i]);
    }
    const double wait_s = small.empty() ? 0 : TrimmedMean(small);
    blocking.push_back(wait_s);
    scale.push_back((probe.outside_s - wait_s * static_cast<double>(probe.costs.size())) / bytes);
  }

  std::map<std::string, Launch> floors_;  // by run
  std::vector<ProbeLaunch> probes_;
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
  const std::vector<CollectiveCost> probed = reader.Costs();
  if (probed.empty() && swept.empty()) return std::nullopt;
  const Record& any = *(sweeps.empty() ? probes : sweeps).front();
  // Shared memory has one communication thread, whatever was asked for.
  const bool has_threads = backend != "shm" && backend != "hierarchical";
  const int channels = has_threads ? static_cast<int>(any.config.IntOr("comm_threads", 1)) : 1;
  const double threads = static_cast<double>(any.config.IntOr("threads_per_rank", 1));
  Calibration calibration{.link = CostsOf(probed, swept, channels)};
  std::set<int64_t> on_host;
  for (const Record* const record : records) {
    if (record->run_id == any.run_id && record->provenance.host == any.provenance.host)
      on_host.insert(record->rank);
  }
  const double cpus = static_cast<double>(any.provenance.cpu_count);
  calibration.processors = {cpus / static_cast<double>(on_host.size()), threads};
  calibration.copy_in = reader.copy_in.mean();
  calibration.copy_out = reader.copy_out.mean();
  calibration.scale = reader.scale.mean();
  calibration.placed_backward = reader.placed_backward.mean();
  calibration.remote_optimizer = reader.remote_optimizer.mean();
  calibration.copied_optimizer = reader.copied_optimizer.mean();
  calibration.blocking_s = reader.blocking.mean();
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
