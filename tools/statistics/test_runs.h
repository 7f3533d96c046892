#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

// Simulates runs of a benchmark in which the true differences between strategies are known, with noise that
// is drawn from measured steps, so that tests can count how often confidence intervals contain the true
// differences.
namespace gradsync::tools {

using Values = std::vector<double>;

// A random generator whose Uniform() and Below() return, for one seed, the same numbers on every machine.
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

// TinyResiduals() and SmallResiduals() return the noise of step times, measured with the models `tiny` and
// `small`, in thousandths of a step. Medians were subtracted from the times to remove the differences between
// rounds and between strategies. The kMeasuredVariants numbers of a round, one of each strategy, follow each
// other.
inline constexpr size_t kMeasuredVariants = 13;
std::span<const int> TinyResiduals();   // of the model `tiny`, 26 rounds
std::span<const int> SmallResiduals();  // of the model `small`, 10 rounds

// A simulated step takes 1000 units of time before Simulate adds drift, noise and the effects of strategies.
inline constexpr double kSimulatedStep = 1000;
struct Run {
  std::vector<Values> steps{};
  double mean = 0;  // mean of the steps without noise and effects
};

// Simulates a run with launches[i] rounds in launch i; in each round, each strategy takes one step.
// effects[k] is added to the time of all steps of strategy k, so the differences between strategies are
// known. For each simulated round, a measured round of `residuals` is chosen at random. The numbers of the
// measured round are shuffled, and one is added to each strategy's time as noise. For more than
// kMeasuredVariants strategies, several measured rounds are chosen. To imitate a machine whose speed drifts,
// one offset is added to the times of all strategies in a round. The offset is the sum of a random walk,
// which continues through all launches, and a sine wave, which starts anew in each launch. For each launch
// and strategy, a normal random number with the standard deviation `launch_std` is added to all steps of the
// strategy in this launch.
Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws);

}  // namespace gradsync::tools
