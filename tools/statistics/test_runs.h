#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

// Simulated runs, for tests that count how often intervals hold: steps that are drawn from measured ones.
namespace gradsync::tools {

using Values = std::vector<double>;

// The same on every machine.
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

// What is left of measured steps, in thousandths of a step, once the medians of rounds and of variants are
// taken out: round after round, and in it the step of each of 13 variants.
inline constexpr size_t kMeasuredVariants = 13;
std::span<const int> TinyResiduals();   // a launch of `tiny`, 28 rounds
std::span<const int> SmallResiduals();  // a launch of `small`, whose step is ten times as long: 10 rounds

// In thousandths of a step, by variant and round.
inline constexpr double kSimulatedStep = 1000;
struct Run {
  std::vector<Values> steps{};
  double mean = 0;  // of what a step would take without its residual and an effect
};

// Rounds that are drawn from measured ones, each with its residuals dealt out anew, and a machine that
// drifts, in trend and in waves, which is the same for all variants of a round. `effects`: by variant
// how much longer its steps are; more than kMeasuredVariants take the residuals of several rounds.
// `launch_std`: of what each variant has of its own in a launch.
Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws);

}  // namespace gradsync::tools
