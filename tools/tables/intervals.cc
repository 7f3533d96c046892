#include "tools/tables/intervals.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<size_t> SizesOf(const Sample& sample) {
  std::vector<size_t> sizes;
  for (const Launch& launch : sample.launches) sizes.push_back(launch.num_steps);
  if (sizes.empty()) sizes.push_back(sample.values.size());
  return sizes;
}

std::vector<double> Chosen(const std::vector<double>& values, const std::vector<size_t>& numbers) {
  std::vector<double> chosen;
  for (const size_t number : numbers) chosen.push_back(values[number]);
  return chosen;
}

}  // namespace

Sample SampleOf(const Measurement& measurement, const Series& series) {
  if (series.published) return {};
  return {series.max, measurement.launches, IsInTurn(measurement),
          measurement.launches.size() == 1 && measurement.record.config.StringOr("order", "") == "blocks"};
}

bool IsInTurn(const Measurement& measurement) {
  return measurement.record.config.StringOr("order", "") == "interleaved";
}

SharedRounds SharedRoundsOf(const std::vector<Launch>& own, const std::vector<Launch>& other) {
  SharedRounds shared;
  size_t own_begin = 0;
  for (const Launch& launch : own) {
    size_t other_begin = 0;
    for (const Launch& candidate : other) {
      if (candidate.run_id == launch.run_id) {
        const size_t rounds = std::min(launch.num_steps, candidate.num_steps);
        for (size_t i = 0; i < rounds; ++i) {
          shared.own.push_back(own_begin + i);
          shared.other.push_back(other_begin + i);
        }
        if (rounds > 0) shared.launches.push_back(rounds);
        break;
      }
      other_begin += candidate.num_steps;
    }
    own_begin += launch.num_steps;
  }
  return shared;
}

size_t Intervals::AddRatio(const Sample& own, const Sample& other) {
  if (own.is_in_block || other.is_in_block || own.values.empty() || other.values.empty()) return kNone;
  ComparedSamples pair;
  if (own.is_in_turn && other.is_in_turn) {
    const SharedRounds shared = SharedRoundsOf(
        own.launches.empty() ? std::vector<Launch>{{"", own.values.size()}} : own.launches,
        other.launches.empty() ? std::vector<Launch>{{"", other.values.size()}} : other.launches);
    if (shared.own.empty()) return kNone;
    pair = {Chosen(own.values, shared.own),
            Chosen(other.values, shared.other),
            Pairing::kRounds,
            shared.launches,
            {}};
  } else {
    pair = {own.values, other.values, Pairing::kNone, SizesOf(own), SizesOf(other)};
  }
  (pair.pairing == Pairing::kRounds ? resampled_rounds_ : resampled_steps_) = true;
  has_several_launches_ |= pair.launches.size() > 1;
  compared_.push_back(std::move(pair));
  return compared_.size() - 1;
}

size_t Intervals::AddMean(std::vector<double> values, std::vector<size_t> launches) {
  has_several_launches_ |= launches.size() > 1;
  resampled_rounds_ = true;
  compared_.push_back({std::move(values), {}, Pairing::kRounds, std::move(launches), {}});
  return compared_.size() - 1;
}

void Intervals::Compute() { intervals_ = Bootstrap(options_).Simultaneous(compared_); }

Interval Intervals::operator[](size_t number) const {
  return number == kNone ? Interval{kNaN, kNaN} : intervals_[number];
}

std::string Intervals::Description() const {
  std::string what = Join(
      "bootstrap of ", resampled_rounds_ ? "rounds" : "", resampled_rounds_ && resampled_steps_ ? " or " : "",
      resampled_steps_ || !resampled_rounds_ ? "steps" : "", " (", options_.resamples, " resamples)");
  if (has_several_launches_) what = "from the means of launches, by Student's t and Sidak's bound";
  return what + ", all intervals of the table at once. An interval that holds 0 shows no difference.";
}

}  // namespace gradsync::tools
