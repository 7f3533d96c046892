#include "tools/predict/torch_profile.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>

#include "model/error.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TorchCollectives, kind, in_flight, bytes, ns, in_ns, out_ns,
                                                wall_ns, cpu_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TorchStep, mode, row, begin_ns, before_ns, backward_ns,
                                                copy_back_ns, rest_ns, optimizer_ns, step_ns, ready_ns,
                                                collectives)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TorchParameter, name, numel, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DdpRow, name, bucket_bytes, first_bucket_bytes, bf16, zero1, passes,
                                   rebuilt_bucket_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TorchLaunch, gradsync_torch, device, backend, optimizer,
                                                command, world_size, threads, cores, passes, link_rate, views,
                                                hosts, parameters, rows, ranks)

namespace {

constexpr double kNs = 1e-9;

auto StepsOf(const TorchLaunch& launch) { return launch.ranks | std::views::join; }

void Check(const TorchLaunch& launch) {
  const auto world = static_cast<size_t>(launch.world_size);
  Require(launch.gradsync_torch == 1, "\"gradsync_torch\" is ", launch.gradsync_torch, ", expected 1");
  Require(!launch.parameters.empty(), "no parameters");
  Require(launch.ranks.size() == world && launch.hosts.size() == world, launch.ranks.size(), " ranks on ",
          launch.hosts.size(), " hosts, expected ", world);
  const std::vector<TorchStep>& first = launch.ranks.front();
  for (const std::vector<TorchStep>& steps : launch.ranks) {
    Require(steps.size() == first.size(), "ranks have different numbers of steps");
    for (size_t i = 0; i < steps.size(); ++i) {
      const TorchStep& step = steps[i];
      const TorchCollectives& sent = step.collectives;
      const size_t num_casts = sent.kind == "bf16" ? sent.ns.size() : 0;
      Require(step.mode == first[i].mode && step.row == first[i].row, "step ", i, " differs between ranks");
      Require(step.mode == "ddp" ? step.row < launch.rows.size()
                                 : step.ready_ns.size() == launch.parameters.size(),
              "step ", i, " lacks its row or ready times");
      Require(sent.kind.empty() || (!sent.bytes.empty() && sent.wall_ns > 0 &&
                                    sent.ns.size() == (sent.in_flight == 0 ? 0 : sent.bytes.size()) &&
                                    sent.in_ns.size() == num_casts && sent.out_ns.size() == num_casts),
              "step ", i, " lacks times of its collectives");
    }
  }
}

std::vector<double> BytesOf(const TorchLaunch& launch) {
  std::vector<double> bytes;
  for (const TorchParameter& parameter : launch.parameters) bytes.push_back(parameter.bytes);
  return bytes;
}

// What all launches of a profile have in common.
auto KindOf(const TorchLaunch& launch) {
  return std::make_tuple(BytesOf(launch), launch.command, launch.device, launch.backend, launch.world_size,
                         launch.passes, launch.views, launch.threads, launch.link_rate);
}

// Clocks of several hosts have nothing in common; ranks are then taken to begin together.
double BeginOf(const TorchStep& step, const TorchLaunch& launch) {
  const bool one_host = std::ranges::count(launch.hosts, launch.hosts.front()) == launch.world_size;
  return one_host ? kNs * (step.begin_ns - launch.ranks.front().front().begin_ns) : 0;
}

// From the last rank's begin to the last rank's end.
double StepSeconds(const TorchLaunch& launch, size_t i) {
  double begin = -std::numeric_limits<double>::infinity(), end = begin;
  for (const std::vector<TorchStep>& steps : launch.ranks) {
    const double own = BeginOf(steps[i], launch);
    begin = std::max(begin, own);
    end = std::max(end, own + kNs * steps[i].step_ns);
  }
  return end - begin;
}

// The trimmed mean of the mode's steps of all ranks, in seconds.
template <class Nanoseconds>
double MeanOf(const TorchLaunch& launch, const std::string& mode, const Nanoseconds& nanoseconds) {
  std::vector<double> values;
  for (const TorchStep& step : StepsOf(launch))
    if (step.mode == mode) values.push_back(kNs * nanoseconds(step));
  Require(!values.empty(), "no steps of mode \"", mode, "\"");
  return TrimmedMean(values);
}

// What bf16_compress_hook sends of each byte of gradients.
double Bf16Part(const TorchLaunch& launch) {
  const TorchParameter& any = launch.parameters.front();
  return 2 * static_cast<double>(any.numel) / any.bytes;
}

// Threads of gloo that run collectives (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp); NCCL has one
// stream.
int ChannelsOf(const TorchLaunch& launch) { return launch.backend == "gloo" ? 2 : 1; }

// What probes tell of communication.
struct Communication {
  std::vector<CollectiveCost> all_reduce, bf16;  // of bf16 with the cast back, which its thread does
  double cast_in = 0, cast_out = 0, zero1 = 0;   // seconds a byte of gradients
};

Communication CommunicationOf(std::span<const TorchLaunch> launches) {
  struct Samples {
    std::vector<double> seconds, processor, cast_in, cast_out;
  };
  std::map<std::tuple<std::string, int, double>, Samples> all;  // by kind, number in flight, bytes of each
  for (const TorchLaunch& launch : launches) {
    for (size_t i = 0; i < launch.ranks.front().size(); ++i) {
      // The rank that came last waited least.
      const TorchCollectives& sent = std::ranges::min_element(launch.ranks, {},
                                                              [&](const std::vector<TorchStep>& steps) {
                                                                return steps[i].collectives.wall_ns;
                                                              })
                                         ->at(i)
                                         .collectives;
      if (sent.kind.empty()) continue;
      const double bytes = sent.kind == "zero1" ? 1 : sent.bytes.front(),
                   total = std::reduce(sent.bytes.begin(), sent.bytes.end());
      const bool together = sent.in_flight == 0 && sent.kind != "zero1";
      if (together && ChannelsOf(launch) == 1) continue;  // they wait for each other
      const int in_flight = together ? ChannelsOf(launch) : 1;
      Samples& samples = all[{sent.kind, in_flight, bytes}];
      // A GPU's processors are not the host's.
      samples.processor.push_back(launch.device == "cpu" ? sent.cpu_ns / sent.wall_ns : 0);
      // All have been issued, and as many run at a time as there are channels.
      if (sent.in_flight == 0) samples.seconds.push_back(kNs * sent.wall_ns * in_flight * bytes / total);
      std::vector<double> seconds, cast_in, cast_out;
      for (size_t k = 0; k < sent.ns.size() && sent.bytes[k] == bytes; ++k) {
        seconds.push_back(kNs * (sent.ns[k] + (sent.out_ns.empty() ? 0 : sent.out_ns[k])));
        if (sent.in_ns.empty()) continue;
        cast_in.push_back(kNs * sent.in_ns[k] / bytes);
        cast_out.push_back(kNs * sent.out_ns[k] / bytes);
      }
      // A step's mean, because a small collective that waits for a processor is rare and long.
      if (!seconds.empty()) samples.seconds.push_back(Mean(seconds));
      if (cast_in.empty()) continue;
      samples.cast_in.push_back(Mean(cast_in));
      samples.cast_out.push_back(Mean(cast_out));
    }
  }
  Communication communication;
  for (const auto& [key, samples] : all) {
    const auto& [kind, in_flight, bytes] = key;
    const CollectiveCost cost{.in_flight = in_flight,
                              .bytes = kind == "bf16" ? bytes * Bf16Part(launches.front()) : bytes,
                              .seconds = TrimmedMean(samples.seconds),
                              .processor = TrimmedMean(samples.processor)};
    if (kind == "zero1") communication.zero1 = cost.seconds;
    if (kind == "all_reduce") communication.all_reduce.push_back(cost);
    if (kind != "bf16") continue;
    communication.bf16.push_back(cost);
    communication.cast_in = TrimmedMean(samples.cast_in);  // of the largest
    communication.cast_out = TrimmedMean(samples.cast_out);
  }
  return communication;
}

// Several of fewer bytes at once gain what others do.
LinkCosts Bf16Link(const Communication& communication, const LinkCosts& plain, double part) {
  std::vector<CollectiveCost> costs = communication.bf16;
  for (CollectiveCost cost : communication.bf16) {
    cost.in_flight = plain.channels();
    cost.seconds *= cost.in_flight / plain.Gain(cost.kind, cost.bytes / part, cost.in_flight);
    if (cost.in_flight > 1) costs.push_back(cost);
  }
  return LinkCosts(costs, plain.channels());
}

// `launch`: one of those whose communication it is. `casts`: in bf16, with the casts back.
LinkCosts LinkOf(const TorchLaunch& launch, const Communication& communication, bool casts,
                 const Place& place) {
  std::optional<MeasuredLink> recorded;
  if (!communication.all_reduce.empty()) {
    const LinkCosts plain(communication.all_reduce, ChannelsOf(launch));
    recorded = {casts ? Bf16Link(communication, plain, Bf16Part(launch)) : plain, launch.world_size};
  }
  return CostsAt(place, recorded);
}

Round RoundOf(const TorchStep& step, const TorchLaunch& launch) {
  Round round{.begin_s = BeginOf(step, launch),
              .forward_s = kNs * step.before_ns,
              .backward_s = kNs * step.backward_ns,
              .optimizer_s = kNs * step.optimizer_ns,
              .rest_s = kNs * (step.rest_ns + step.copy_back_ns),
              .ready_s = {}};
  // DDP takes what got no gradient to be ready when backward has ended.
  for (const double ready : step.ready_ns)
    round.ready_s.push_back(ready < 0 ? round.backward_s : kNs * ready);
  return round;
}

// Whether all of the gradients were communicated as DDP does, which leaves memory as DDP does.
bool IsWholeProbe(const TorchStep& step, double total_bytes) {
  const TorchCollectives& sent = step.collectives;
  return step.mode == "probe" &&
         (sent.kind.empty() ||
          (sent.kind == "all_reduce" && std::reduce(sent.bytes.begin(), sent.bytes.end()) >= total_bytes));
}

// In which gradients are ready, as rank 0 sees it, whose order DDP takes.
std::vector<size_t> ReadyOrder(const TorchLaunch& launch) {
  std::vector<std::vector<double>> ready(launch.parameters.size());
  for (const TorchStep& step : launch.ranks.front()) {
    if (step.mode != "probe") continue;
    const Round round = RoundOf(step, launch);
    for (size_t i = 0; i < ready.size(); ++i) ready[i].push_back(round.ready_s[i]);
  }
  std::vector<size_t> order(ready.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return Median(ready[i]); });
  return order;
}

// What a rank computes in each of its steps without synchronisation, in seconds.
std::vector<double> PassesOf(const std::vector<TorchStep>& steps) {
  std::vector<double> seconds;
  for (const TorchStep& step : steps)
    if (step.mode == "none") seconds.push_back(kNs * (step.before_ns + step.backward_ns));
  return seconds;
}

// How far one launch's collectives are from another's, as a standard deviation of the logarithm. The place of
// memory alone changes them by 3 %.
constexpr double kLogError = 0.03;

// The inputs of one launch. `pace`: how many times as long everything but communication takes.
StepInputs InputsOf(const TorchLaunch& launch, const DdpRow& row, std::vector<PlannedBucket> buckets,
                    const Elsewhere& elsewhere, double pace) {
  const std::span<const TorchLaunch> linked =
      elsewhere.link_of != nullptr ? std::span(elsewhere.link_of->launches()) : std::span(&launch, 1);
  const Communication communication = CommunicationOf(linked);
  Place place = elsewhere;
  if (place.world_size == 0) place.world_size = launch.world_size;
  const bool is_named = place.wire || place.link;
  const LinkCosts link =
      LinkOf(linked.front(), communication, row.bf16 && !is_named, place).Scaled(elsewhere.pace);
  const std::vector<double> bytes = BytesOf(launch);
  const double total = std::reduce(bytes.begin(), bytes.end());
  double backward = 0, after = 0, share = 1;  // seconds more, and the optimizer's part
  const auto backward_ns = [](const TorchStep& step) { return step.backward_ns; };
  // To add to a gradient moves as many bytes as a cast to bf16 and back, or else as a probe's copy.
  if (row.passes != launch.passes && launch.passes == 1) {
    backward = communication.bf16.empty()
                   ? MeanOf(launch, "probe", backward_ns) - MeanOf(launch, "none", backward_ns)
                   : (communication.cast_in + communication.cast_out) * total;
    backward = std::max(0.0, backward);
  }
  if (row.bf16) {
    backward += communication.cast_in * total;
    // Casts back of earlier buckets are beside what still travels.
    if (is_named) after += pace * communication.cast_out * buckets.back().bytes;
    for (PlannedBucket& bucket : buckets) bucket.bytes *= Bf16Part(launch);
  }
  if (row.zero1) {
    share = LargestZero1Share(launch.parameters, place.world_size);
    // Its broadcasts follow each other, where in an all-gather all ranks send at once. gloo's trees of more
    // than two ranks take longer.
    const auto ranks = static_cast<double>(place.world_size);
    after += is_named || place.world_size != launch.world_size
                 ? link.Seconds(CollectiveKind::kAllGather, total) * ranks / (ranks - 1)
                 : elsewhere.pace * communication.zero1 * total;
  }
  const auto on_host = static_cast<double>(std::ranges::count(launch.hosts, launch.hosts.front()));
  const auto threads = static_cast<double>(launch.threads), cores = static_cast<double>(launch.cores);
  StepInputs inputs{.buckets = std::move(buckets),
                    .world_size = place.world_size,
                    .link = link,
                    .processors = MeasuredProcessors(cores, on_host, threads),
                    .log_error = place.wire ? std::max(kLogError, kAssumedLinkError) : kLogError};
  for (const std::vector<TorchStep>& steps : launch.ranks) {
    const std::vector<double> passes = PassesOf(steps);
    Require(!passes.empty(), "no steps of mode \"none\"");
    std::vector<Round>& rounds = inputs.rounds.emplace_back();
    for (const TorchStep& step : steps) {
      if (!IsWholeProbe(step, total)) continue;
      Round& round = rounds.emplace_back(RoundOf(step, launch));
      const double longer = pace * (1 + backward / round.backward_s);  // spread over backward
      // Ranks do not meet after passes that do not synchronise, so each may be the last of this round.
      for (int64_t more = row.passes / launch.passes - 1; more > 0; --more)
        round.forward_s += passes[(rounds.size() + static_cast<size_t>(more)) % passes.size()];
      round.forward_s *= pace;
      round.backward_s *= longer;
      for (double& ready : round.ready_s) ready *= longer;
      round.optimizer_s *= pace * share;
      round.rest_s = pace * round.rest_s + after;
    }
  }
  return inputs;
}

}  // namespace

std::vector<std::vector<size_t>> DdpBuckets(const std::vector<double>& bytes,
                                            const std::vector<size_t>& order, double first_bucket_bytes,
                                            double bucket_bytes) {
  std::vector<std::vector<size_t>> buckets;
  bool closed = true;
  double held = 0;
  for (const size_t parameter : order) {
    if (closed) {
      buckets.emplace_back();
      held = 0;
    }
    buckets.back().push_back(parameter);
    held += bytes.at(parameter);
    closed = held >= (buckets.size() == 1 ? first_bucket_bytes : bucket_bytes);
  }
  return buckets;
}

double LargestZero1Share(const std::vector<TorchParameter>& parameters, int64_t world_size) {
  std::vector<double> sizes, held(static_cast<size_t>(world_size), 0);
  for (const TorchParameter& parameter : parameters) sizes.push_back(static_cast<double>(parameter.numel));
  std::ranges::sort(sizes, std::greater<>());
  for (const double size : sizes) *std::ranges::min_element(held) += size;
  return std::ranges::max(held) / std::reduce(sizes.begin(), sizes.end());
}

TorchProfile::TorchProfile(std::istream& lines, const std::string& source) {
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    try {
      launches_.push_back(nlohmann::json::parse(line).get<TorchLaunch>());
      Check(launches_.back());
      Require(KindOf(launches_.front()) == KindOf(launches_.back()),
              "another script, model, world or machine than line 1's: move this line to another file");
    } catch (const nlohmann::json::parse_error& error) {
      const bool cut_off = line.starts_with('{') && !line.ends_with('}');
      throw InvalidInput(Join(source, ", line ", number, ": ", cut_off ? "cut off" : "not JSON",
                              ", error at byte ", error.byte));
    } catch (const std::exception& error) {
      throw InvalidInput(Join(source, ", line ", number, ": ", error.what()));
    }
  }
  Require(!launches_.empty(), source, ": no launch of gradsync record");
}

double TorchProfile::total_bytes() const {
  const std::vector<double> bytes = BytesOf(launches_.front());
  return std::reduce(bytes.begin(), bytes.end());
}

bool TorchProfile::HasModelOf(const TorchProfile& other) const {
  const TorchLaunch &own = launches_.front(), &others = other.launches_.front();
  return BytesOf(own) == BytesOf(others) && own.passes == others.passes;
}

std::vector<PlannedBucket> TorchProfile::Buckets(const DdpRow& row) const {
  const std::vector<double> bytes = BytesOf(launches_.front());
  std::vector<PlannedBucket> planned;
  for (std::vector<size_t>& parameters :
       DdpBuckets(bytes, ReadyOrder(launches_.front()), row.first_bucket_bytes, row.bucket_bytes)) {
    PlannedBucket& bucket = planned.emplace_back();
    for (const size_t parameter : parameters) bucket.bytes += bytes[parameter];
    bucket.parameters = std::move(parameters);
  }
  return planned;
}

LooseSample TorchProfile::Steps(const std::string& mode, const std::string& row) const {
  LooseSample steps;
  for (const TorchLaunch& launch : launches_) {
    const size_t before = steps.values.size();
    for (size_t i = 0; i < launch.ranks.front().size(); ++i) {
      const TorchStep& step = launch.ranks.front()[i];
      if (step.mode == mode && (mode != "ddp" || launch.rows[step.row].name == row))
        steps.values.push_back(StepSeconds(launch, i));
    }
    if (steps.values.size() > before) steps.launches.push_back(steps.values.size() - before);
  }
  return steps;
}

Estimate TorchProfile::Measured(const std::string& mode, const std::string& row) const {
  const auto [steps, launches] = Steps(mode, row);
  const RoundDifferences rounds{.values = steps};
  return steps.empty() ? Estimate{} : EstimateRounds({&rounds, 1}, launches).front();
}

double TorchProfile::SecondRunError(const std::string& row) const {
  return tools::SecondRunError(Steps("ddp", row));
}

Prediction TorchProfile::Predict(const DdpRow& row, const Elsewhere& elsewhere) const {
  const double none_s = Measured("none").value, pace = elsewhere.none_s > 0 ? elsewhere.none_s / none_s : 1;
  Prediction all;
  all.none_s = none_s * pace;
  const double part = 1 / static_cast<double>(launches_.size());
  all.step_s = {.value = 0, .interval = {std::numeric_limits<double>::infinity(), 0}};
  for (const TorchLaunch& launch : launches_) {
    const Prediction one = PredictStep(InputsOf(launch, row, Buckets(row), elsewhere, pace));
    all.step_s.value += part * one.step_s.value;
    all.exposed_s += part * one.exposed_s;
    all.slowest_s += part * one.slowest_s;
    all.floor_s += part * one.floor_s;
    // Another launch may be as any of these.
    all.step_s.interval.low = std::min(all.step_s.interval.low, one.step_s.interval.low);
    all.step_s.interval.high = std::max(all.step_s.interval.high, one.step_s.interval.high);
  }
  const double none =
      all.none_s * static_cast<double>(row.passes) / static_cast<double>(launches_.front().passes);
  all.cost_s = {.value = all.step_s.value - none,
                .interval = {all.step_s.interval.low - none, all.step_s.interval.high - none}};
  return all;
}

}  // namespace gradsync::tools
