#include "bench/training/stop_rule.h"

#include <cmath>

#include "model/tensor.h"

namespace gradsync::bench {
namespace {

using model::Tensor;

// Rounds between two looks, each of which costs an all-reduce.
constexpr int64_t kRoundsBetweenLooks = 5;

// 97.5 % of Student's distribution lie below it: the expansion of Cornish and Fisher, within 1 % from 3
// degrees of freedom on.
double StudentQuantile(double degrees) {
  const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z5 * z * z + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

bool IsPreciseEnough(const StepTimes& steps_ns, double precision) {
  const std::vector<double> base(steps_ns.front().begin(), steps_ns.front().end());
  const auto rounds = static_cast<double>(base.size());
  if (rounds < 3) return false;
  for (const std::vector<int64_t>& variant : steps_ns) {
    std::vector<double> differences, squares;
    for (size_t i = 0; i < base.size(); ++i) differences.push_back(static_cast<double>(variant[i]) - base[i]);
    const double mean = Mean(differences);
    for (const double difference : differences) squares.push_back((difference - mean) * (difference - mean));
    const double error = std::sqrt(Mean(squares) / (rounds - 1));
    if (StudentQuantile(rounds - 1) * error > precision * Mean(base)) return false;
  }
  return true;
}

StepTimes MaxOverRanks(const StepTimes& steps_ns, comm::ProcessGroup& group, const model::DevicePtr& device) {
  StepTimes slowest;
  for (const std::vector<int64_t>& own : steps_ns) {
    const Tensor times = Tensor::From<int64_t>(device, {static_cast<int64_t>(own.size())}, own);
    group.AllReduce(times, comm::ReduceOp::kMax).Wait();
    slowest.push_back(times.ToVector<int64_t>());
  }
  return slowest;
}

bool StopRule::IsLast(const std::vector<int64_t>& steps_ns, comm::ProcessGroup& group,
                      const model::DevicePtr& device) {
  ++rounds_;
  if (!precision_ || rounds_ >= most_) return rounds_ >= most_;
  known_ns_.resize(steps_ns.size());
  recent_ns_.resize(steps_ns.size());
  for (size_t i = 0; i < steps_ns.size(); ++i) recent_ns_[i].push_back(steps_ns[i]);
  if (rounds_ < least_ || (rounds_ - least_) % kRoundsBetweenLooks != 0) return false;
  const StepTimes slowest = MaxOverRanks(recent_ns_, group, device);
  for (size_t i = 0; i < slowest.size(); ++i) {
    known_ns_[i].insert(known_ns_[i].end(), slowest[i].begin(), slowest[i].end());
    recent_ns_[i].clear();
  }
  const std::vector<int32_t> enough = {IsPreciseEnough(known_ns_, *precision_) ? 1 : 0};
  const Tensor answer = Tensor::From<int32_t>(device, {1}, enough);
  group.Broadcast(answer, 0).Wait();
  return answer.ToVector<int32_t>().front() != 0;
}

}  // namespace gradsync::bench
