#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

// Simulates runs with steps that are drawn from measured steps. Tests count how often intervals are correct.
namespace gradsync::tools {

using Values = std::vector<double>;

// A random generator with equal numbers on every machine.
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

// Residuals of measured steps, in thousandths of a step, after subtraction of the medians of rounds and of
// variants. The residuals are ordered by round, and in each round by variant (13 variants).
inline constexpr size_t kMeasuredVariants = 13;
std::span<const int> TinyResiduals();  // residuals of a launch of `tiny`, 28 rounds
// Residuals of a launch of `small`, whose step is ten times longer, 10 rounds.
std::span<const int> SmallResiduals();

// Simulated steps are in thousandths of a step, by variant and round.
inline constexpr double kSimulatedStep = 1000;
struct Run {
  std::vector<Values> steps{};
  double mean = 0;  // mean over steps without residuals and effects
};

// Simulates a run. Each round is drawn from measured rounds, and its residuals are assigned to variants at
// random. A drift of the machine, with a trend and waves, is equal for all variants of a round. `effects` has
// the additional time of the steps of each variant; more than kMeasuredVariants variants use the residuals of
// several rounds. `launch_std` is the standard deviation of each variant's own effect of a launch.
Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws);

}  // namespace gradsync::tools
