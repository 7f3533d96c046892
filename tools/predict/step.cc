#include "tools/predict/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

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
  const size_t affordable = kMostRankActions / (world * (4 * inputs.buckets.size() + 4));
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

// The actions of all ranks in one round; seconds of rank r are in place r.
struct StepActions {
  std::vector<double> begins = {};
  std::vector<Action> actions = {};
  std::vector<ReplayedCollective> collectives = {};
  size_t backward = 0;  // the action that ends backward
  size_t received = 0;  // the one after which all gradients are received

  template <class Seconds>
  void ComputeEach(const Draw& draw, const Seconds& seconds) {
    Action action;
    for (size_t r = 0; r < draw.size(); ++r) action.seconds.push_back(seconds(*draw[r], r));
    actions.push_back(std::move(action));
  }
};

StepActions ActionsOf(const std::vector<PlannedBucket>& buckets, const Draw& draw) {
  StepActions step;
  for (const Round* const round : draw) step.begins.push_back(round->begin_s);
  step.ComputeEach(draw, [](const Round& round, size_t) { return round.forward_s; });
  std::vector<double> at(draw.size(), 0);  // of backward, that has been computed
  for (const PlannedBucket& bucket : buckets) {
    step.collectives.push_back({bucket.kind, bucket.bytes});
    step.ComputeEach(draw, [&](const Round& round, size_t r) {
      double ready = at[r];
      for (const size_t parameter : bucket.parameters) ready = std::max(ready, round.ready_s[parameter]);
      return ready - std::exchange(at[r], ready);
    });
    step.actions.push_back({.kind = Action::Kind::kIssue});
  }
  step.backward = step.actions.size();
  step.ComputeEach(draw,
                   [&](const Round& round, size_t r) { return std::max(0.0, round.backward_s - at[r]); });
  for (size_t i = 0; i < buckets.size(); ++i)
    step.actions.push_back({.kind = Action::Kind::kWait, .index = i});
  step.received = step.actions.size() - 1;
  step.ComputeEach(draw, [](const Round& round, size_t) { return round.optimizer_s; });
  step.ComputeEach(draw, [](const Round& round, size_t) { return round.rest_s; });
  return step;
}

Replayed ReplayStep(const StepActions& step, const StepInputs& inputs, const LinkCosts& link) {
  return Replay(step.begins, step.actions, step.collectives, link, inputs.processors);
}

// The steps of each draw at three paces of the link: a standard deviation faster, as measured, and one
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
  const size_t num_parameters = inputs.rounds.front().front().ready_s.size();
  for (const std::vector<Round>& rank : inputs.rounds) {
    Require(rank.size() == inputs.rounds.front().size(), "ranks have different numbers of steps");
    for (const Round& round : rank)
      Require(round.ready_s.size() == num_parameters,
              Join("a step has ready times of ", round.ready_s.size(), " parameters of ", num_parameters));
  }
  for (const PlannedBucket& bucket : inputs.buckets) {
    for (const size_t parameter : bucket.parameters)
      Require(parameter < num_parameters, Join("parameter ", parameter, " of ", num_parameters));
  }
}

// See Prediction::floor_s.
double FloorOf(const StepInputs& inputs, const std::vector<Draw>& draws, double none_s) {
  double bytes = 0, link_s = 0, processor_s = 0;
  for (const PlannedBucket& bucket : inputs.buckets) bytes += bucket.bytes;
  for (const PlannedBucket& bucket : inputs.buckets) {
    // At the pace of one large collective.
    const double seconds = inputs.link.Seconds(bucket.kind, bytes) * bucket.bytes / bytes;
    link_s += seconds;
    processor_s += seconds * inputs.link.Processor(bucket.kind, bytes, 1);
  }
  const RankProcessors& processors = inputs.processors;
  std::vector<double> first;
  for (const Draw& draw : draws) {
    // The first gradient of the last rank.
    double ready = 0;
    for (const Round* const round : draw) {
      ready =
          std::max(ready, round->forward_s + (round->ready_s.empty() ? 0 : std::ranges::min(round->ready_s)));
    }
    first.push_back(processors.crowding() * ready);
  }
  const double computing_s = none_s * processors.computing / processors.crowding();
  const double shared = (computing_s + processor_s) / processors.available;
  return std::max({none_s, bytes > 0 ? TrimmedMean(first) + link_s : 0, shared});
}

}  // namespace

Prediction PredictStep(const StepInputs& given) {
  Check(given);
  const StepInputs inputs = Aligned(given);
  std::mt19937_64 random(1);
  const std::vector<Draw> draws = DrawRounds(inputs, random);
  const LinkCosts& link = inputs.link;
  const LinkCosts links[] = {link.Scaled(std::exp(-inputs.log_error)), link,
                             link.Scaled(std::exp(inputs.log_error))};
  std::vector<AtPaces> steps;
  std::vector<double> nones, exposed, typical;
  for (const Draw& draw : draws) {
    const StepActions step = ActionsOf(inputs.buckets, draw);
    AtPaces& at = steps.emplace_back();
    for (size_t pace = 0; pace < at.size(); ++pace) {
      const Replayed replayed = ReplayStep(step, inputs, links[pace]);
      at[pace] = replayed.end;
      if (pace == 1) exposed.push_back(replayed.done[step.received] - replayed.done[step.backward]);
    }
    nones.push_back(ReplayStep(ActionsOf({}, draw), inputs, link).end);
    typical.push_back(at[1]);
  }

  Prediction prediction;
  prediction.none_s = prediction.slowest_s = TrimmedMean(nones);
  prediction.exposed_s = TrimmedMean(exposed);
  prediction.floor_s = FloorOf(inputs, draws, prediction.none_s);
  prediction.step_s.value = TrimmedMean(typical);
  // Bootstrap: rounds drawn anew, and a pace of the link.
  constexpr int kReplicates = 1000;
  std::normal_distribution<double> normal;
  std::vector<double> step_s, drawn(draws.size());
  for (int i = 0; i < kReplicates; ++i) {
    const double z = normal(random);
    for (double& step : drawn) step = At(steps[random() % draws.size()], z);
    step_s.push_back(TrimmedMean(drawn));
  }
  prediction.step_s.interval = Middle95(std::move(step_s));
  return prediction;
}

}  // namespace gradsync::tools
