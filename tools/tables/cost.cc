#include "tools/tables/cost.h"

#include <utility>

namespace gradsync::tools {

Cost::Cost(const Measurement& own, const Measurement* floor, Intervals* intervals) {
  const Series* const step = own.Find("step_ns");
  if (own.is_floor() || step == nullptr || step->published) return;
  const Measurement& other = floor == nullptr ? own : *floor;
  const SharedRounds rounds = SharedRoundsOf(own.launches, other.launches);
  if (rounds.own.empty()) return;
  // The mean of what `value_of` gives for a round's numbers, here and there.
  const bool is_in_turn = IsInTurn(own) && IsInTurn(other);
  const auto estimate = [&](const auto& value_of) {
    std::vector<double> values;
    for (size_t i = 0; i < rounds.own.size(); ++i) values.push_back(value_of(rounds.own[i], rounds.other[i]));
    Estimate result{.mean = Mean(values)};
    if (is_in_turn) result.number = intervals->AddMean(std::move(values), rounds.launches);
    return result;
  };
  const Series* const computed = own.Find(kComputed);
  const Series* const averaged = own.Find(kAveraged);
  const bool has_phases = computed != nullptr && averaged != nullptr;
  const auto wait = [&](size_t here) { return averaged->max[here] - computed->max[here]; };
  if (has_phases) exposed = estimate([&](size_t here, size_t) { return wait(here); });
  const Series* const floor_step = other.Find("step_ns");
  if (floor == nullptr || floor_step == nullptr || floor_step->published) return;
  const auto cost = [&](size_t here, size_t there) { return step->max[here] - floor_step->max[there]; };
  sync_cost = estimate(cost);
  double steps_s = 0;
  for (const size_t here : rounds.own) steps_s += step->max[here];
  fraction.mean = sync_cost.mean * static_cast<double>(rounds.own.size()) / steps_s;
  // As a ratio: none's step / step - 1.
  if (is_in_turn) {
    fraction.number = intervals->AddRatio(SampleOf(*floor, *floor_step), SampleOf(own, *step));
  }
  const Series* const floor_computed = floor->Find(kComputed);
  if (!has_phases || floor_computed == nullptr) return;
  const auto longer = [&](size_t here, size_t there) {
    return computed->max[here] - floor_computed->max[there];
  };
  tax = estimate(longer);
  rest = estimate(
      [&](size_t here, size_t there) { return cost(here, there) - wait(here) - longer(here, there); });
}

void Cost::TakeIntervals(const Intervals& intervals) {
  for (const auto& [name, part] : kCostParts) {
    (this->*part).interval = intervals[(this->*part).number];
  }
  const Interval ratio = intervals[fraction.number];
  fraction.interval = {-ratio.high, -ratio.low};
}

void AddCostNotes(bool has_cost, Table* table) {
  if (!has_cost) {
    table->AddNote(
        "sync_cost, tax and rest are unknown: they need `none` in the same run, as with "
        "--strategies=none,naive,core. exposed: what the step waits for once the last rank has computed.");
    return;
  }
  table->AddNote(
      "sync_cost: step less that of `none` in the same rounds, which its parts add up to. exposed: what the "
      "step waits for once the last rank has computed. tax: by how much forward and backward take longer "
      "than those of `none`. rest: the optimizer and what is left. fraction_cost = sync_cost / step.");
  table->AddNote(
      "skew: how much earlier than the last rank the others had computed. They wait for it, and it is no "
      "communication; published time_per_sync counts it.");
}

void AddCommunicationNotes(Table* table) {
  table->AddNote(
      "comm_busy: time with communication in flight. overlap: the part of it hidden behind backward, 1 - "
      "(from "
      "the end of a rank's own backward to the last mean) / comm_busy; below 0 where synchronisation does "
      "more "
      "than communicate. comm_waiting: the part of comm_busy in which the last rank has yet to issue the "
      "same "
      "collective; comm_moving: the rest.");
}

}  // namespace gradsync::tools
