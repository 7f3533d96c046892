#include "tools/predict/replay.h"

#include <algorithm>
#include <limits>

#include "model/error.h"

namespace gradsync::tools {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kInstant = 1e-12;  // seconds: what rounding may leave of a collective

// The collectives in time, and the clock of computation, which goes more slowly while they use processors.
// All ranks that compute go at the same pace, so one such clock serves all.
class Link {
 public:
  Link(const std::vector<ReplayedCollective>& collectives, const LinkCosts& costs,
       const RankProcessors& processors)
      : collectives_(collectives),
        costs_(costs),
        processors_(processors),
        finished_(collectives.size(), kNever),
        finished_work_(collectives.size(), kNever) {}

  // The next one, at this moment of the clock of computation.
  void Issue(double work) { issued_work_.push_back(work); }

  // Goes on until collective i is done; returns that moment on the clock of computation. Some rank computes
  // until `busy_until` on that clock.
  double Finish(size_t i, double busy_until) {
    while (finished_[i] == kNever) Advance(kNever, busy_until);
    return finished_work_[i];
  }
  // Goes on until this moment of the clock of computation, and returns the time.
  double Reach(double work) {
    while (work_ < work) Advance(work, work);
    return time_;
  }

  // The time of a moment of the clock of computation that has been reached.
  double TimeOf(double work) const {
    const auto next = std::ranges::lower_bound(moments_, work, {}, &Moment::work);
    if (next == moments_.begin() || next->work == work) return next->time;
    const Moment& before = *std::prev(next);
    return before.time + (next->time - before.time) * (work - before.work) / (next->work - before.work);
  }

 private:
  struct Moment {
    double work, time;
  };
  struct InFlight {
    size_t index;
    double left;  // seconds, alone
  };

  // What it uses of a rank's processors.
  double Used(const InFlight& in_flight) const {
    const ReplayedCollective& one = collectives_[in_flight.index];
    return costs_.Processor(one.kind, one.bytes, static_cast<int>(in_flight_.size()));
  }

  // How much longer what shares processors with what is in flight takes, and that itself.
  struct SlowDowns {
    double computation = 1, communication = 1;
  };
  SlowDowns SlowDown(bool is_busy) const {
    double wanted = 0;
    for (const InFlight& one : in_flight_) wanted += Used(one) / static_cast<double>(in_flight_.size());
    const auto slow = [&](double threads) { return std::max(1.0, threads / processors_.available); };
    return {slow(processors_.computing + wanted), slow((is_busy ? processors_.computing : 0) + wanted)};
  }

  void Start() {
    while (next_ < issued_work_.size() && issued_work_[next_] <= work_ &&
           std::ssize(in_flight_) < costs_.channels()) {
      const auto& [kind, bytes] = collectives_[next_];
      in_flight_.push_back({next_, costs_.Seconds(kind, bytes)});
      ++next_;
    }
  }

  // To the next moment at which something changes.
  void Advance(double until_work, double busy_until) {
    const bool is_busy = work_ < busy_until;
    Start();
    const auto [slow, slow_link] = SlowDown(is_busy);
    double step = (until_work - work_) * slow;
    double next_work = until_work;
    const auto at_work = [&](double work) {
      if (work <= work_ || (work - work_) * slow >= step) return;
      step = (work - work_) * slow;
      next_work = work;
    };
    if (is_busy) at_work(busy_until);
    if (next_ < issued_work_.size()) at_work(issued_work_[next_]);
    const auto pace = [&](const InFlight& one) {
      const auto& [kind, bytes] = collectives_[one.index];
      const int together = static_cast<int>(in_flight_.size());
      return costs_.Gain(kind, bytes, together) / together / slow_link;
    };
    bool ends = false;
    for (const InFlight& one : in_flight_) {
      if (one.left / pace(one) >= step) continue;
      step = one.left / pace(one);
      ends = true;
    }
    Require(step < kNever, "a wait for a collective that was not issued");
    for (InFlight& one : in_flight_) one.left -= step * pace(one);
    time_ += step;
    work_ = ends ? work_ + step / slow : next_work;
    moments_.push_back({work_, time_});
    std::erase_if(in_flight_, [&](const InFlight& one) {
      if (one.left > kInstant) return false;
      finished_[one.index] = time_;
      finished_work_[one.index] = work_;
      return true;
    });
  }

  const std::vector<ReplayedCollective>& collectives_;
  const LinkCosts& costs_;
  const RankProcessors processors_;
  double time_ = 0, work_ = 0;              // the same moment, on either clock
  std::vector<Moment> moments_ = {{0, 0}};  // between which both clocks go evenly
  size_t next_ = 0;                         // to start
  std::vector<double> issued_work_;
  std::vector<InFlight> in_flight_;
  std::vector<double> finished_, finished_work_;
};

}  // namespace

Replayed Replay(const std::vector<double>& begins, const std::vector<Action>& actions,
                const std::vector<ReplayedCollective>& collectives, const LinkCosts& costs,
                const RankProcessors& processors) {
  Require(!begins.empty(), "a replay without ranks");
  Link link(collectives, costs, processors);
  // By rank, on the clock of computation: when it has done all actions so far.
  std::vector<double> at = begins;
  const auto [first, last] = std::ranges::minmax(begins);
  const double origin = first, late = last - first;
  for (double& moment : at) moment -= origin;
  double latest = late;
  std::vector<double> done;  // on that clock
  for (const Action& action : actions) {
    switch (action.kind) {
      case Action::Kind::kCompute: {
        const bool is_same = action.seconds.size() == 1;
        for (size_t r = 0; r < at.size(); ++r) at[r] += action.seconds.at(is_same ? 0 : r);
        latest = std::ranges::max(at);
        break;
      }
      case Action::Kind::kIssue:
        link.Issue(latest);
        break;
      case Action::Kind::kWait: {
        const double finished = link.Finish(action.index, latest);
        for (double& moment : at) moment = std::max(moment, finished);
        latest = std::max(latest, finished);
        break;
      }
    }
    done.push_back(latest);
  }
  Replayed replayed;
  replayed.end = link.Reach(latest);
  const double begun = link.TimeOf(late);
  replayed.end -= begun;
  for (const double work : done) replayed.done.push_back(link.TimeOf(work) - begun);
  return replayed;
}

}  // namespace gradsync::tools
