#include "tools/predict/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "model/error.h"
#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

using Draw = std::vector<const Round*>;  // a round of all ranks

// Rounds of all ranks: those that were measured, or, in a larger world, some whose other ranks are drawn from
// them.
std::vector<Draw> DrawRounds(const StepInputs& inputs, std::mt19937_64& random) {
  // With so few, thousands of ranks take seconds.
  constexpr size_t kMostRankActions = 20'000'000, kFewest = 12;
  const size_t measured = inputs.rounds.size(), num_rounds = inputs.rounds.front().size();
  const size_t world = static_cast<size_t>(inputs.world_size);
  const size_t affordable = kMostRankActions / (world * (4 * inputs.plan.buckets.size() + 4));
  std::vector<Draw> draws(world <= measured ? num_rounds
                                            : std::min(std::max(affordable, kFewest), num_rounds));
  for (size_t k = 0; k < draws.size(); ++k) {
    for (size_t r = 0; r < world; ++r) {
      draws[k].push_back(r < measured ? &inputs.rounds[r][k]
                                      : &inputs.rounds[random() % measured][random() % num_rounds]);
    }
  }
  return draws;
}

// Each round begins with its first rank, so that ranks of different rounds can be put together.
StepInputs Aligned(StepInputs inputs) {
  for (size_t k = 0; k < inputs.rounds.front().size(); ++k) {
    double first = std::numeric_limits<double>::infinity();
    for (const std::vector<Round>& rank : inputs.rounds) first = std::min(first, rank[k].begin_s);
    for (std::vector<Round>& rank : inputs.rounds) rank[k].begin_s -= first;
  }
  return inputs;
}

Replayed ReplayStep(const StepActions& step, const Calibration& machine, const LinkCosts& link) {
  return Replay(step.begins, step.actions, step.collectives, link, machine.processors);
}
double StepSeconds(const StepInputs& inputs, const Draw& draw) {
  return ReplayStep(ActionsOf(inputs, draw), inputs.calibration, inputs.calibration.link).end;
}

StepInputs WithoutSynchronisation(const StepInputs& inputs) {
  StepInputs none = inputs;
  none.plan = {};
  return none;
}

// The steps of each draw at three paces of the link: a standard deviation faster, as calibrated, and one
// slower.
using AtPaces = std::array<double, 3>;

double At(const AtPaces& steps, double z) {
  return steps[1] + (z < 0 ? (steps[1] - steps[0]) : (steps[2] - steps[1])) * z;
}

Interval Middle95(std::vector<double> values) {
  return {Percentile(values, 0.025), Percentile(values, 0.975)};
}

void Check(const StepInputs& inputs) {
  Require(inputs.world_size >= 1, "a prediction without ranks");
  Require(!inputs.rounds.empty() && !inputs.rounds.front().empty(), "a prediction without steps");
  const size_t num_parameters = inputs.parameter_bytes.size();
  for (const std::vector<Round>& rank : inputs.rounds) {
    Require(rank.size() == inputs.rounds.front().size(), "ranks have different numbers of steps");
    for (const Round& round : rank)
      Require(round.ready_s.size() == num_parameters,
              Join("a step has ready times of ", round.ready_s.size(), " parameters of ", num_parameters));
  }
  for (const PlannedBucket& bucket : inputs.plan.buckets) {
    for (const size_t parameter : bucket.parameters)
      Require(parameter < num_parameters, Join("parameter ", parameter, " of ", num_parameters));
  }
}

// See Prediction::floor_s.
double FloorOf(const StepInputs& inputs, const std::vector<Draw>& draws, double none_s) {
  const Calibration& machine = inputs.calibration;
  double bytes = 0, link_s = 0, processor_s = 0;
  for (const PlannedBucket& bucket : inputs.plan.buckets) bytes += bucket.bytes;
  for (const PlannedBucket& bucket : inputs.plan.buckets) {
    // At the pace of one large collective.
    const double seconds = machine.link.Seconds(bucket.kind, bytes) * bucket.bytes / bytes;
    link_s += seconds;
    processor_s += seconds * machine.link.Processor(bucket.kind, bytes, 1);
  }
  const RankProcessors& processors = machine.processors;
  std::vector<double> first, optimizer;
  for (const Draw& draw : draws) {
    // The first gradient of the last rank.
    double ready = 0, update = 0;
    for (const Round* const round : draw) {
      ready =
          std::max(ready, round->forward_s + (round->ready_s.empty() ? 0 : std::ranges::min(round->ready_s)));
      update = std::max(update, round->optimizer_s);
    }
    first.push_back(processors.crowding() * ready);
    optimizer.push_back(processors.crowding() * update);
  }
  double computed = none_s;
  if (inputs.plan.updates == StepPlan::Updates::kParts)
    computed -= TrimmedMean(optimizer) * (1 - 1 / static_cast<double>(inputs.world_size));
  const double computing_s = computed * processors.computing / processors.crowding();
  const double shared = (computing_s + processor_s) / processors.available;
  return std::max({computed, bytes > 0 ? TrimmedMean(first) + link_s : 0, shared});
}

// See Prediction::plain_s.
StepInputs PlainInputs(const StepInputs& inputs) {
  StepInputs plain = inputs;
  Calibration& machine = plain.calibration;
  double bytes = 0;
  for (const PlannedBucket& bucket : inputs.plan.buckets) bytes += bucket.bytes;
  std::vector<CollectiveCost> costs;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    for (const double size : {0.0, std::max(bytes, 1.0)})
      costs.push_back({.kind = kind, .bytes = size, .seconds = machine.link.Seconds(kind, size)});
  }
  machine.link = LinkCosts(costs);
  machine.copy_in = machine.copy_out = Curve({{0, 0}});
  machine.scale = machine.placed_backward = machine.remote_optimizer = 0;
  machine.copied_optimizer = machine.blocking_s = 0;
  return plain;
}

}  // namespace

double TypicalStep(const StepInputs& given) {
  Check(given);
  const StepInputs inputs = Aligned(given);
  std::mt19937_64 random(1);
  std::vector<double> steps;
  for (const Draw& draw : DrawRounds(inputs, random)) steps.push_back(StepSeconds(inputs, draw));
  return TrimmedMean(steps);
}

Prediction PredictStep(const StepInputs& given) {
  Check(given);
  const StepInputs inputs = Aligned(given);
  std::mt19937_64 random(1);
  const std::vector<Draw> draws = DrawRounds(inputs, random);
  const StepInputs none = WithoutSynchronisation(inputs), plain = PlainInputs(inputs);
  const double period = static_cast<double>(inputs.plan.period), error = inputs.calibration.log_error;
  const LinkCosts& link = inputs.calibration.link;
  const LinkCosts links[] = {link.Scaled(std::exp(-error)), link, link.Scaled(std::exp(error))};
  std::vector<AtPaces> steps;
  std::vector<double> nones, exposed, plains, typical;
  for (const Draw& draw : draws) {
    const double none_s = StepSeconds(none, draw);
    const auto mean = [&](double synchronising) { return ((period - 1) * none_s + synchronising) / period; };
    const StepActions step = ActionsOf(inputs, draw);
    AtPaces& at = steps.emplace_back();
    for (size_t pace = 0; pace < at.size(); ++pace) {
      const Replayed replayed = ReplayStep(step, inputs.calibration, links[pace]);
      at[pace] = mean(replayed.end);
      if (pace == 1)
        exposed.push_back((replayed.done[step.received] - replayed.done[step.backward]) / period);
    }
    nones.push_back(none_s);
    typical.push_back(at[1]);
    plains.push_back(mean(StepSeconds(plain, draw)));
  }

  Prediction prediction;
  prediction.none_s = prediction.slowest_s = TrimmedMean(nones);
  prediction.exposed_s = TrimmedMean(exposed);
  prediction.plain_s = TrimmedMean(plains);
  prediction.floor_s = FloorOf(inputs, draws, prediction.none_s);
  prediction.step_s.value = TrimmedMean(typical);
  prediction.cost_s.value = prediction.step_s.value - prediction.none_s;
  // Bootstrap: rounds drawn anew, and a pace of the link.
  constexpr int kReplicates = 1000;
  std::normal_distribution<double> normal;
  std::vector<double> step_s, cost_s, drawn(draws.size()), drawn_none(draws.size());
  for (int i = 0; i < kReplicates; ++i) {
    const double z = normal(random);
    for (size_t k = 0; k < draws.size(); ++k) {
      const size_t from = random() % draws.size();
      drawn[k] = At(steps[from], z);
      drawn_none[k] = nones[from];
    }
    step_s.push_back(TrimmedMean(drawn));
    cost_s.push_back(step_s.back() - TrimmedMean(drawn_none));
  }
  prediction.step_s.interval = Middle95(std::move(step_s));
  prediction.cost_s.interval = Middle95(std::move(cost_s));
  return prediction;
}

}  // namespace gradsync::tools
