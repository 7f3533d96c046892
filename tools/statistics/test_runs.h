#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

// Simulates runs of a benchmark in which the differences between strategies are known, for tests of
// confidence intervals.
namespace gradsync::tools {

using Values = std::vector<double>;

// A random generator; for one seed, Uniform() and Below() return the same numbers on every machine.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  double Uniform() {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<double>(state_ >> 11) * 0x1p-53;
  }
  size_t Below(size_t n) { return static_cast<size_t>(Uniform() * static_cast<double>(n)); }
  double Normal() {
    return std::sqrt(-2 * std::log(1 - Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

// TinyResiduals() and SmallResiduals() return random deviations of step times that were measured with the
// models `tiny` and `small`. The deviations are in thousandths of the step time. Every kMeasuredVariants
// consecutive numbers are from one measured round, one number for each strategy.
inline constexpr size_t kMeasuredVariants = 13;
std::span<const int> TinyResiduals();   // 26 rounds
std::span<const int> SmallResiduals();  // 10 rounds

// A simulated step takes 1000 units of time, to which Simulate adds drift, noise, launch effects and the
// effects of strategies.
inline constexpr double kSimulatedStep = 1000;
struct Run {
  std::vector<Values> steps{};  // step times of each strategy
  double mean = 0;              // mean over all rounds of kSimulatedStep plus drift
};

// Simulates a benchmark run of several launches (program starts), with launches[i] rounds in launch i. In
// each round, each strategy takes one step. Strategy k's step takes kSimulatedStep plus effects[k], a launch
// effect, noise and drift. The launch effect is drawn once for each launch and strategy, from a normal
// distribution with standard deviation `launch_std`. In each round, Simulate picks a random measured round of
// `residuals`, and gives each strategy another number of this round as noise. For more than kMeasuredVariants
// strategies, Simulate picks several measured rounds, which may be equal. The drift is equal for all
// strategies in a round: a random walk plus a sine wave.
Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws);

}  // namespace gradsync::tools
