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
constexpr double kMostBesideSeconds = 0.005;  // longer than a thread waits for a processor

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

// Clocks of several hosts have nothing in common; ranks are then taken to begin together.
double BeginOf(const Record& rank, const Launch& launch, size_t step) {
  const bool one_host = std::ranges::all_of(
      launch, [&](const Record* const other) { return other->provenance.host == rank.provenance.host; });
  return one_host ? Seconds(rank.samples.at("begin_ns").at(step)) : 0;
}

// From the last rank's begin to the last rank's end.
double StepOf(const Launch& launch) {
  std::vector<double> steps;
  for (size_t s = 0; s < launch.front()->samples.at("step_ns").size(); ++s) {
    double begin = -kUnknown, end = -kUnknown;
    for (const Record* const rank : launch) {
      const double own = BeginOf(*rank, launch, s);
      begin = std::max(begin, own);
      end = std::max(end, own + Seconds(rank->samples.at("step_ns").at(s)));
    }
    steps.push_back(end - begin);
  }
  return TrimmedMean(steps);
}

double EndOfBackward(const Record& rank, const Launch& launch, size_t step) {
  const auto sample = [&](SampleName name) { return Seconds(rank.samples.at(name).at(step)); };
  return BeginOf(rank, launch, step) + sample("begin_step_ns") + sample("forward_ns") +
         sample("backward_ns") + sample("hooks_ns");
}

// When backward ends after the step's begin, on average over ranks, and how much later than that on the last
// rank.
std::pair<double, double> BackwardEnds(const Launch& launch) {
  std::vector<double> means, late;
  for (size_t s = 0; s < launch.front()->samples.at("step_ns").size(); ++s) {
    double begin = -kUnknown, last = -kUnknown, sum = 0;
    for (const Record* const rank : launch) {
      begin = std::max(begin, BeginOf(*rank, launch, s));
      const double end = EndOfBackward(*rank, launch, s);
      last = std::max(last, end);
      sum += end;
    }
    const double mean = sum / static_cast<double>(launch.size());
    means.push_back(mean - begin);
    late.push_back(last - mean);
  }
  return {TrimmedMean(means), TrimmedMean(late)};
}

// A strategy without buckets sends tensors as they lie.
CollectiveKind KindInStep(const Record& record, CollectiveKind kind) {
  const bool has_buckets =
      record.facts.BoolOr("copies_gradients", false) || record.facts.BoolOr("places_gradients", false);
  return kind == CollectiveKind::kAllReduce && !has_buckets ? CollectiveKind::kAllReduceUnplaced : kind;
}

// A launch of a strategy that sends after backward: typical values over its steps, in seconds.
struct ProbeLaunch {
  std::vector<CollectiveCost> costs = {};  // by bucket
  double total_s = 0, processor_s = 0;     // of all collectives, and CPU-seconds of a rank
  // By bucket: what is done before it is issued, from the end of backward, or of the one before.
  std::vector<double> gaps_s = {};
  double after_s = 0;    // what is done after the last one, until all is averaged
  double outside_s = 0;  // all of these
  bool copies = false;

  double bytes() const {
    double sum = 0;
    for (const CollectiveCost& cost : costs) sum += cost.bytes;
    return sum;
  }
};

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
      const double begin = BeginOf(*rank, launch, s), end = EndOfBackward(*rank, launch, s);
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
  const double step_s = StepOf(launch);
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
    const bool overlaps = any.facts.BoolOr("overlaps", true);
    if (overlaps && any.buckets.size() > 1) {
      const auto [mean, late] = BackwardEnds(launch);
      const auto [floor_mean, floor_late] = BackwardEnds(floor->second);
      overlapping_.push_back(launch);
      uneven_.push_back((late - floor_late) / (mean - floor_mean));
      return;
    }
    (copies ? copied_optimizer_ : remote_optimizer_).push_back(longer("optimizer_ns") / bytes);
    if (any.facts.BoolOr("places_gradients", false))
      placed_backward_.push_back((longer("backward_ns") + longer("hooks_ns")) / bytes);
    if (overlaps) return;
    probes_.push_back(ReadProbe(launch));
    totals_[any.variant.name()].push_back(std::log(probes_.back().total_s));
  }

  // By the probes alone.
  std::vector<CollectiveCost> Costs() {
    ShareProcessor(&probes_);
    std::vector<CollectiveCost> costs;
    for (const ProbeLaunch& probe : probes_)
      costs.insert(costs.end(), probe.costs.begin(), probe.costs.end());
    return costs;
  }

  // All but the link and the processors, which are there.
  void Complete(Calibration* calibration) const {
    TakeGaps(calibration);
    calibration->placed_backward = Said(placed_backward_);
    calibration->remote_optimizer = Said(remote_optimizer_);
    calibration->copied_optimizer = Said(copied_optimizer_);
    calibration->log_error = LogError();
    calibration->processors.uneven = Said(uneven_);
    std::vector<double> seconds, processor_s;
    for (const Launch& launch : overlapping_) {
      const std::optional<Beside> beside = BesideOf(launch, floors_.at(launch.front()->run_id), *calibration);
      if (!beside) continue;
      seconds.push_back(beside->seconds);
      processor_s.push_back(beside->processor_s);
    }
    calibration->link.set_beside({Said(seconds), Said(processor_s)});
  }

 private:
  // Before the first collective lies work for its bytes; before a later one also what the wait for the one
  // before takes beyond its end and, of copies, the work for its result.
  void TakeGaps(Calibration* calibration) const {
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

  std::map<std::string, Launch> floors_;  // by run
  std::vector<ProbeLaunch> probes_;
  std::vector<Launch> overlapping_;
  std::map<std::string, std::vector<double>> totals_;
  std::vector<double> placed_backward_, remote_optimizer_, copied_optimizer_;  // seconds a byte
  std::vector<double> uneven_;
};

// Sweeps say how many in flight, and other kinds, compare with one all-reduce of the same size; probes what
// that takes inside a step.
LinkCosts CostsOf(std::vector<CollectiveCost> probes, const std::vector<CollectiveCost>& sweeps,
                  int channels) {
  if (sweeps.empty()) return LinkCosts(probes, channels);
  if (probes.empty()) return LinkCosts(sweeps, channels);
  const LinkCosts alone(sweeps, channels), inside(probes, channels);
  const auto add = [&](CollectiveCost cost, CollectiveKind like) {
    cost.seconds *= inside.Seconds(like, cost.bytes) / alone.Seconds(CollectiveKind::kAllReduce, cost.bytes);
    const double used = alone.Processor(CollectiveKind::kAllReduce, cost.bytes, 1);
    if (used > 0) cost.processor *= inside.Processor(like, cost.bytes, 1) / used;
    probes.push_back(cost);
  };
  for (CollectiveCost cost : sweeps) {
    const bool is_all_reduce = cost.kind == CollectiveKind::kAllReduce;
    if (is_all_reduce && cost.in_flight == 1) continue;
    add(cost, CollectiveKind::kAllReduce);
    if (!is_all_reduce || !inside.has(CollectiveKind::kAllReduceUnplaced)) continue;
    cost.kind = CollectiveKind::kAllReduceUnplaced;
    add(cost, cost.kind);
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
  reader.Complete(&calibration);
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
        round.begin_s = BeginOf(rank, launch, s);
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
    planned.kind = KindInStep(record, KindOf(bucket.collective));
    planned.parameters.assign(bucket.parameters.begin(), bucket.parameters.end());
  }
  // Gathers before what is reduced are for forward, which the model does not know.
  const bool gathers_first = plan.buckets.front().kind == CollectiveKind::kAllGather;
  if (plan.updates == StepPlan::Updates::kParts && gathers_first) return std::nullopt;
  return plan;
}

}  // namespace gradsync::tools
