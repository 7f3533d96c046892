#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

// Simulates runs whose true differences are known, with steps that are drawn from measured steps, so that
// tests can count how often confidence intervals are correct.
namespace gradsync::tools {

using Values = std::vector<double>;

// A random generator that returns the same numbers on every machine.
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

// Noise of measured steps, in thousandths of a step: the times minus the medians of their rounds and of their
// strategies. Ordered by round, and in each round by strategy (13 strategies).
inline constexpr size_t kMeasuredVariants = 13;
std::span<const int> TinyResiduals();  // of the model `tiny`, 28 rounds
// Noise of measured steps of the model `small`, in 10 rounds; its step takes ten times as long as that of
// `tiny`.
std::span<const int> SmallResiduals();

// The mean time of a simulated step. Simulated times are in thousandths of it.
inline constexpr double kSimulatedStep = 1000;
struct Run {
  std::vector<Values> steps{};
  double mean = 0;  // mean of the steps without noise and effects
};

// Simulates a run with launches[i] rounds in launch i. `effects` has, for each strategy, how much longer its
// steps are; these are the true differences. Each round gets the noise (`residuals`) of a measured round,
// assigned to strategies at random. To imitate a machine whose speed drifts, the same value is added to all
// strategies' times in a round; over the rounds it is a random walk plus a sine wave. `launch_std` is the
// standard deviation of what each launch adds to all steps of a strategy.
Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws);

}  // namespace gradsync::tools
