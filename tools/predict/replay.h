#ifndef GRADSYNC_TOOLS_PREDICT_REPLAY_H_
#define GRADSYNC_TOOLS_PREDICT_REPLAY_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tools/predict/link_costs.h"

namespace gradsync::tools {

// What all ranks do, one action after the other; what they compute takes each its own time.
struct Action {
  enum class Kind {
    kCompute,
    kIssue,  // the next collective of the list
    kWait,   // until collective `index` is done
  };
  Kind kind = Kind::kCompute;
  // What kCompute takes where nothing else runs: by rank, or one number that all have.
  std::vector<double> seconds = {};
  size_t index = 0;  // of kWait
};

struct ReplayedCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double bytes = 0;
};

// The processors of one rank.
struct RankProcessors {
  double available = 1;  // of the host, for each of its ranks
  double computing = 1;  // threads; what they compute takes its own time if as many are available

  // How many times as long computation takes where threads share processors.
  double crowding() const { return std::max(1.0, computing / available); }
};

// Of ranks that were measured side by side. Where they had more threads than processors, their computation
// was measured slowed down: it must not be slowed down again.
inline RankProcessors MeasuredProcessors(double processors_of_host, double ranks_on_host,
                                         double threads_of_rank) {
  return {.available = std::max(threads_of_rank, processors_of_host / ranks_on_host),
          .computing = threads_of_rank};
}

// When things happen, in seconds after the last rank has begun.
struct Replayed {
  double end = 0;            // all ranks have done all actions
  std::vector<double> done;  // by action: the last rank has done it
};

// Replays the actions of all ranks. A collective is one event: it starts when the last rank has issued it and
// a channel is free, in the order of issue, and ends on all ranks at once. While k are in flight each goes at
// Gain / k of its pace alone. A rank's processors are shared: where computing threads and communication want
// more than there are, both are slowed down in proportion; the threads count for communication if any rank
// computes at all. With one processor and one thread that is 1 / (1 + u).
//
// `begins`: by rank, when it begins; only differences count.
Replayed Replay(const std::vector<double>& begins, const std::vector<Action>& actions,
                const std::vector<ReplayedCollective>& collectives, const LinkCosts& link,
                const RankProcessors& processors);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_REPLAY_H_
