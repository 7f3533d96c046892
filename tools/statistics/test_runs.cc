#include "tools/statistics/test_runs.h"

#include <numeric>
#include <utility>

namespace gradsync::tools {
namespace {

// Residuals from the records in docs/records.
constexpr int kTiny[] = {
    -41,  -5,   -9,  7,    199,  0,    -1,   13,   8,   144,  -6,   -62, 25,  0,   -116, 36,  -18,  110,
    -6,   -77,  81,  27,   -29,  -9,   262,  46,   364, -312, 0,    414, -60, 51,  -73,  136, 9,    -143,
    -59,  -112, 63,  15,   -234, 0,    3,    -20,  111, -9,   -91,  19,  -22, 4,   -62,  26,  -74,  47,
    -19,  5,    10,  -88,  62,   -62,  28,   0,    -15, -119, 38,   -15, 15,  389, -59,  2,   -151, 0,
    -83,  371,  6,   38,   -1,   -77,  0,    56,   172, -4,   52,   46,  -72, -65, -42,  -5,  -36,  36,
    30,   10,   29,  131,  -7,   -8,   0,    22,   24,  -6,   -64,  38,  -6,  -51, -4,   2,   26,   -15,
    25,   -72,  49,  0,    7,    -2,   15,   -64,  -29, -29,  173,  0,   -43, -25, 18,   -87, 121,  20,
    -114, -28,  23,  55,   9,    -155, 168,  24,   12,  0,    -23,  -38, 10,  -3,  12,   -67, -16,  -53,
    100,  0,    152, -7,   493,  80,   -17,  -66,  51,  8,    -43,  -48, 16,  -57, -80,  0,   5,    141,
    -44,  26,   64,  0,    10,   -31,  -21,  24,   -73, -3,   4,    0,   -73, -49, -98,  36,  10,   -22,
    106,  17,   -58, -2,   484,  83,   0,    453,  96,  -80,  -39,  431, 0,   -25, 98,   0,   -124, -29,
    163,  -24,  76,  -110, 226,  25,   -33,  -9,   22,  14,   55,   -77, -7,  -51, -3,   40,  -10,  -118,
    75,   9,    38,  69,   0,    11,   -124, -18,  -50, 15,   -165, 62,  -43, -48, 133,  0,   0,    84,
    37,   -185, -54, 86,   0,    -81,  0,    -96,  49,  -111, 476,  21,  -3,  1,   -8,   34,  48,   0,
    39,   19,   -12, 14,   -61,  -27,  -71,  0,    -11, 590,  124,  -1,  -71, 217, -1,   -27, 0,    484,
    79,   3,    -8,  355,  363,  -53,  14,   0,    -89, -50,  292,  -3,  -10, 10,  280,  -58, 91,   -110,
    56,   233,  -24, -84,  40,   275,  -66,  -112, -28, 346,  0,    23,  109, -99, -63,  -43, 357,  0,
    -11,  24,   29,  -63,  -71,  12,   -30,  103,  -81, 0,    -17,  -12, 20,  113, -35,  43,  19,   79,
    -17,  -9,   13,  -20,  335,  -32,  5,    0,    11,  -16,  -67,  95,  3,   -35};
constexpr int kSmall[] = {
    38,  -72, -172, 12,  60,  -44,  -136, 248,  0,   -11,  112, 32,   -120, 59,  -5,  57,   -160, 20,   318,
    325, -22, 11,   -15, -36, -14,  0,    35,   -74, -126, 63,  -40,  58,   51,  2,   103,  -79,  -26,  -96,
    0,   46,  -45,  35,  -77, 84,   78,   -28,  -43, 275,  282, -46,  0,    -8,  -23, -4,   61,   -130, -74,
    -33, 159, 12,   0,   366, -119, 40,   29,   0,   24,   115, -33,  5,    41,  -42, 6,    -45,  -44,  13,
    -16, -16, 53,   21,  -57, -30,  72,   -14,  -56, 0,    -26, 74,   -3,   3,   94,  0,    38,   21,   49,
    -12, -10, 48,   -6,  -94, -80,  202,  18,   -35, -37,  143, -17,  297,  62,  -2,  -120, 2,    50,   -29,
    10,  -26, 0,    -43, 114, -32,  -3,   -119, 0,   59,   44,  -100, 91,   170, 3,   -6};

}  // namespace

std::span<const int> TinyResiduals() { return kTiny; }
std::span<const int> SmallResiduals() { return kSmall; }

Run Simulate(std::span<const int> residuals, const std::vector<size_t>& launches, const Values& effects,
             double launch_std, Draws* draws) {
  const size_t num_variants = effects.size();
  Run run{std::vector<Values>(num_variants)};
  double walk = 0, sum = 0;
  for (const size_t size : launches) {
    Values own(num_variants);
    for (double& effect : own) effect = launch_std * draws->Normal();
    for (size_t i = 0; i < size; ++i) {
      walk += 7 * draws->Normal();
      const double drift = walk + 80 * std::sin(static_cast<double>(i) / 7);
      sum += kSimulatedStep + drift;
      const size_t round = draws->Below(residuals.size() / kMeasuredVariants);
      std::vector<size_t> dealt(kMeasuredVariants);
      std::iota(dealt.begin(), dealt.end(), round * kMeasuredVariants);
      while (dealt.size() < num_variants) {
        const size_t more = draws->Below(residuals.size() / kMeasuredVariants);
        for (size_t k = 0; k < kMeasuredVariants; ++k) dealt.push_back(more * kMeasuredVariants + k);
      }
      for (size_t k = 0; k < num_variants; ++k) {
        std::swap(dealt[k], dealt[k + draws->Below(dealt.size() - k)]);
        run.steps[k].push_back(kSimulatedStep + drift + own[k] + effects[k] + residuals[dealt[k]]);
      }
    }
  }
  run.mean = sum / static_cast<double>(run.steps[0].size());
  return run;
}

}  // namespace gradsync::tools
