#ifndef GRADSYNC_TOOLS_PREDICT_STEP_H_
#define GRADSYNC_TOOLS_PREDICT_STEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/predict/link_costs.h"
#include "tools/predict/replay.h"
#include "tools/statistics/estimates.h"

// What a step should take that sends gradients during backward, from steps without synchronisation and from
// what collectives cost. Nothing of a step that is predicted enters.
namespace gradsync::tools {

// One collective of a step.
struct PlannedBucket {
  std::vector<size_t> parameters;  // indices into Round::ready_s
  double bytes = 0;                // as sent, with padding: of the whole vector of its collective
  CollectiveKind kind = CollectiveKind::kAllReduce;
};

// One step of one rank without synchronisation, in seconds. With accumulation forward holds all passes but
// the last backward, as in records.
struct Round {
  double begin_s = 0;  // when it began; only differences between the ranks of one round count
  double forward_s = 0, backward_s = 0, optimizer_s = 0;
  double rest_s = 0;  // what else a step does, at its end
  // By parameter: when its gradient was complete, after the beginning of backward.
  std::vector<double> ready_s;
};

struct StepInputs {
  // In the order of issue; each is sent as soon as its gradients are ready. Empty: nothing is sent.
  std::vector<PlannedBucket> buckets = {};
  // By rank, and for each rank by round; rounds of one index were taken at the same time. All have as many,
  // of as many parameters.
  std::vector<std::vector<Round>> rounds = {};
  // Ranks to predict; those beyond the measured ones are drawn from them. `link` must be of so many ranks.
  int64_t world_size = 2;
  LinkCosts link;
  RankProcessors processors = {};
  // How far the collectives' times may be from the next launch's, as a standard deviation of their logarithm.
  double log_error = 0;
};

struct Prediction {
  Estimate step_s;       // trimmed mean over rounds, with an interval of 95 %
  Estimate cost_s;       // step less that without synchronisation; PredictStep leaves it out
  double none_s = 0;     // the step without synchronisation
  double slowest_s = 0;  // the same of the slowest rank of all that are predicted
  double exposed_s = 0;  // from the end of the last rank's backward until all gradients are received
  // No schedule of these bytes takes less: computation, the link from the first gradient on, and the
  // processors each have to do their work.
  double floor_s = 0;
};

// Replays every round, and rounds drawn anew with times of collectives drawn anew for the interval. The same
// numbers in every call. Throws InvalidInput where rounds, parameters and buckets do not fit.
Prediction PredictStep(const StepInputs& inputs);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_STEP_H_
