#ifndef GRADSYNC_TOOLS_PREDICT_STEP_H_
#define GRADSYNC_TOOLS_PREDICT_STEP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/predict/link_costs.h"
#include "tools/predict/replay.h"
#include "tools/statistics/estimates.h"

// What a step with a strategy should take, from steps without synchronisation and from a calibration. Nothing
// of a step that is predicted enters.
namespace gradsync::tools {

// One collective of a step.
struct PlannedBucket {
  std::vector<size_t> parameters;  // indices into Round::ready_s
  double bytes = 0;                // as sent, with padding: of the whole vector of its collective
  CollectiveKind kind = CollectiveKind::kAllReduce;
};

// How a strategy synchronises, whatever the times.
struct StepPlan {
  enum class Sends {
    kNothing,
    kAfterBackward,   // one after the other, each blocking
    kDuringBackward,  // each in the order of the plan, as soon as its gradients are ready
  };
  enum class Updates {
    kWhole,     // the optimizer steps when all have been received
    kByBucket,  // and updates each bucket when that has been received
    // Each rank updates its part of each bucket. The plan has the buckets once as reduce-scatters, and then,
    // unless ranks share one copy of the values, once more as all-gathers.
    kParts,
  };

  Sends sends = Sends::kNothing;
  Updates updates = Updates::kWhole;
  std::vector<PlannedBucket> buckets;  // in the order of issue
  bool copies = false;            // gradients are copied into a buffer before they are sent, and back after
  bool scales = false;            // each is scaled by a pass of its own before it is sent
  bool places_gradients = false;  // kernels write gradients into buckets
  int64_t period = 1;             // steps, of which only the last synchronises
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

// What a machine does beside collectives: from a calibration, in another run than the one that is predicted.
struct Calibration {
  LinkCosts link;
  RankProcessors processors = {};
  // For each byte of gradients, in seconds; of copies by the size of the bucket.
  Curve copy_in{{{0, 0}}}, copy_out{{{0, 0}}};
  double scale = 0;
  double placed_backward = 0;   // backward is longer where gradients are written into buckets
  double remote_optimizer = 0;  // the optimizer is longer where another thread has written the gradients
  double copied_optimizer = 0;  // or where they were copied back
  double blocking_s = 0;        // what a rank waits for a blocking collective beyond its time alone
  // How far the collectives' times may be from the next launch's, as a standard deviation of their logarithm.
  double log_error = 0;
};

struct StepInputs {
  StepPlan plan;
  // By rank, and for each rank by round; rounds of one index were taken at the same time. All have as many.
  std::vector<std::vector<Round>> rounds = {};
  std::vector<double> parameter_bytes = {};  // of each parameter's gradient
  // Ranks to predict; those beyond the measured ones are drawn from them. `link` must be of so many ranks.
  int64_t world_size = 2;
  Calibration calibration;
};

struct Prediction {
  Estimate step_s;       // trimmed mean over rounds, with an interval of 95 %
  Estimate cost_s;       // step less that without synchronisation
  double none_s = 0;     // the step without synchronisation
  double slowest_s = 0;  // the same of the slowest rank of all that are predicted
  double exposed_s = 0;  // from the end of the last rank's backward until all gradients are received
  // No schedule of these bytes takes less: computation, the link from the first gradient on, and the
  // processors each have to do their work.
  double floor_s = 0;
  // The plain estimate: a latency and a rate for each collective, no sharing of processors, no copies.
  double plain_s = 0;
};

// Replays every round, and rounds drawn anew with times of collectives drawn anew for the interval. The same
// numbers in every call. Throws InvalidInput where rounds, parameters and plan do not fit.
Prediction PredictStep(const StepInputs& inputs);

// Its step_s.value alone, of a plan whose every step synchronises.
double TypicalStep(const StepInputs& inputs);

// The actions of all ranks in one round; seconds of rank r are in place r. `rounds`: of each rank.
struct StepActions {
  std::vector<double> begins;
  std::vector<Action> actions;
  std::vector<ReplayedCollective> collectives;
  size_t backward = 0;  // the action that ends backward
  size_t received = 0;  // the one after which all gradients are received
};
StepActions ActionsOf(const StepInputs& inputs, const std::vector<const Round*>& rounds);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_STEP_H_
