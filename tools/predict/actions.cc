#include <algorithm>

#include "tools/predict/step.h"

namespace gradsync::tools {
namespace {

using Kind = Action::Kind;
using Sends = StepPlan::Sends;
using Updates = StepPlan::Updates;

class Builder {
 public:
  Builder(const StepInputs& inputs, const std::vector<const Round*>& rounds)
      : inputs_(inputs), plan_(inputs.plan), machine_(inputs.calibration), rounds_(rounds) {
    for (const double bytes : inputs.parameter_bytes) all_bytes_ += bytes;
  }

  StepActions Build() {
    for (const Round* const round : rounds_) step_.begins.push_back(round->begin_s);
    for (const PlannedBucket& bucket : plan_.buckets)
      step_.collectives.push_back({bucket.kind, bucket.bytes});
    ComputeEach([](const Round& round) { return round.forward_s; });
    if (plan_.sends == Sends::kDuringBackward) {
      BackwardWithSends();
    } else {
      ComputeEach([&](const Round& round) { return Placed(round) * round.backward_s; });
    }
    step_.backward = step_.actions.size() - 1;
    if (plan_.sends == Sends::kAfterBackward) SendOneByOne();
    if (plan_.updates == Updates::kWhole) {
      for (size_t i = 0; plan_.sends == Sends::kDuringBackward && i < plan_.buckets.size(); ++i) Receive(i);
      step_.received = step_.actions.size() - 1;
      Update(1);
    } else {
      plan_.updates == Updates::kByBucket ? UpdateByBucket() : UpdateParts();
    }
    ComputeEach([](const Round& round) { return round.rest_s; });
    return std::move(step_);
  }

 private:
  template <class Seconds>
  void ComputeEach(const Seconds& seconds) {
    Action action;
    for (const Round* const round : rounds_) action.seconds.push_back(seconds(*round));
    step_.actions.push_back(std::move(action));
  }
  void Compute(double seconds) { step_.actions.push_back({.seconds = {seconds}}); }
  void Issue() { step_.actions.push_back({.kind = Kind::kIssue}); }
  void Wait(size_t i) { step_.actions.push_back({.kind = Kind::kWait, .index = i}); }

  // The bytes of bucket i's gradients, without padding.
  double BytesOf(size_t i) const {
    double bytes = 0;
    for (const size_t parameter : plan_.buckets[i].parameters) bytes += inputs_.parameter_bytes.at(parameter);
    return bytes;
  }
  double CopySeconds(const Curve& copy, size_t i) const { return copy.RatioAt(BytesOf(i)) * BytesOf(i); }
  // How much longer backward is where it writes into buckets.
  double Placed(const Round& round) const {
    if (!plan_.places_gradients || round.backward_s <= 0) return 1;
    return 1 + machine_.placed_backward * all_bytes_ / round.backward_s;
  }
  // The buckets that are sent before the update: all of them, unless each rank updates parts.
  size_t NumParts() const {
    if (plan_.updates != Updates::kParts) return plan_.buckets.size();
    return static_cast<size_t>(std::ranges::count_if(plan_.buckets, [](const PlannedBucket& bucket) {
      return bucket.kind != CollectiveKind::kAllGather;
    }));
  }

  void Prepare(size_t i) {
    if (plan_.copies) Compute(CopySeconds(machine_.copy_in, i));
    if (plan_.scales) Compute(machine_.scale * BytesOf(i));
  }

  void BackwardWithSends() {
    std::vector<double> at(rounds_.size(), 0);  // of backward, that has been computed
    const size_t num_sent = NumParts();
    for (size_t i = 0; i < num_sent; ++i) {
      Action until_ready;
      for (size_t r = 0; r < rounds_.size(); ++r) {
        double ready = at[r];
        for (const size_t parameter : plan_.buckets[i].parameters)
          ready = std::max(ready, Placed(*rounds_[r]) * rounds_[r]->ready_s.at(parameter));
        until_ready.seconds.push_back(ready - at[r]);
        at[r] = ready;
      }
      step_.actions.push_back(std::move(until_ready));
      Prepare(i);
      Issue();
    }
    size_t r = 0;
    ComputeEach([&](const Round& round) {
      const double done = at[r++];
      return std::max(0.0, Placed(round) * round.backward_s - done);
    });
  }

  void SendOneByOne() {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      Prepare(i);
      Issue();
      Wait(i);
      Compute(machine_.blocking_s + (plan_.copies ? CopySeconds(machine_.copy_out, i) : 0));
    }
  }

  void Receive(size_t i) {
    Wait(i);
    if (plan_.copies) Compute(CopySeconds(machine_.copy_out, i));
  }

  // The optimizer's step of this share of all parameters.
  void Update(double share) {
    const double longer = plan_.sends == Sends::kNothing ? 0
                          : plan_.copies                 ? machine_.copied_optimizer
                                                         : machine_.remote_optimizer;
    ComputeEach([&](const Round& round) { return share * (round.optimizer_s + longer * all_bytes_); });
  }

  void UpdateByBucket() {
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      Receive(i);
      step_.received = step_.actions.size() - 1;
      Update(BytesOf(i) / all_bytes_);
    }
  }

  // While the values of a bucket travel the next is updated.
  void UpdateParts() {
    const size_t num_parts = NumParts();
    const bool gathers = num_parts < plan_.buckets.size();
    for (size_t i = 0; i < num_parts; ++i) {
      Wait(i);
      step_.received = step_.actions.size() - 1;
      Update(BytesOf(i) / all_bytes_ / static_cast<double>(inputs_.world_size));
      if (!gathers) continue;
      Issue();
      if (i > 0) TakeValues(num_parts + i - 1);
    }
    if (gathers) TakeValues(plan_.buckets.size() - 1);
  }
  void TakeValues(size_t i) {
    Wait(i);
    Compute(CopySeconds(machine_.copy_out, i));
  }

  const StepInputs& inputs_;
  const StepPlan& plan_;
  const Calibration& machine_;
  const std::vector<const Round*>& rounds_;
  double all_bytes_ = 0;
  StepActions step_;
};

}  // namespace

StepActions ActionsOf(const StepInputs& inputs, const std::vector<const Round*>& rounds) {
  return Builder(inputs, rounds).Build();
}

}  // namespace gradsync::tools
