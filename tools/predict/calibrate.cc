#include "tools/predict/calibrate.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "tools/predict/probes.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using bench::Record;
using bench::SampleName;

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

std::optional<Calibration> CalibrationOf(const Records& records, std::string_view backend,
                                         std::string_view model) {
  const auto is_of_model = [&](const Record* record) {
    return record->experiment == "ddp" && record->config.StringOr("model", "") == model;
  };
  const bool has_model = std::ranges::any_of(records, is_of_model);
  Records sweeps, floors, probes;
  for (const Record* const record : records) {
    if (has_model && record->experiment == "ddp" && !is_of_model(record)) continue;
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
    if (record->run_id == any.run_id && MachineOf(*record) == MachineOf(any)) on_host.insert(record->rank);
  }
  calibration.processors = MeasuredProcessors(static_cast<double>(any.provenance.cpu_count),
                                              static_cast<double>(on_host.size()), threads);
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
  // Parts within hosts travel over two links, which the model does not know.
  if (facts.StringOr("updates", "") == "parts_within_hosts") return std::nullopt;
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
