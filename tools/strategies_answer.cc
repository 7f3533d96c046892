#include "tools/strategies_answer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "model/error.h"
#include "tools/predict/calibrate.h"
#include "tools/records/reader.h"
#include "tools/reports/winners_map.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

using bench::Record;

// The part of a rank's processors that communication uses, which nobody has measured.
constexpr double kAssumedProcessor = 0.1, kMostProcessor = 0.3;

// Predictions that are closer than this are not told apart, whatever their intervals.
constexpr double kTellsApart = 0.01;

bool IsAsGood(const Estimate& step, const Estimate& best) {
  return step.interval.low <= best.interval.high || step.value <= (1 + kTellsApart) * best.value;
}
// The fastest: its index, or none where another is as good.
std::optional<size_t> Winner(const std::vector<Estimate>& steps) {
  const auto best = std::ranges::min_element(steps, {}, &Estimate::value);
  for (const Estimate& step : steps) {
    if (&step != &*best && IsAsGood(step, *best)) return std::nullopt;
  }
  return static_cast<size_t>(best - steps.begin());
}

bool IsFloor(const Record& record) { return record.variant.strategy == record.facts.StringOr("floor", "-"); }

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g", 1e3 * seconds); }

// A variant, and all that is known of it.
struct Candidate {
  const Record* record;
  StepPlan plan;
  std::optional<Calibration> calibration;  // of its backend

  std::string name() const { return record->variant.name(); }
};

// What was measured over a link.
struct MeasuredAt {
  double gbit;  // 0: as recorded
  int64_t world_size;
  std::map<std::string, std::map<std::string, double>> steps;  // the slowest rank's, by variant and launch

  // The mean of a variant's launches in seconds, if there are any.
  std::optional<double> Step(const std::string& variant) const {
    const auto found = steps.find(variant);
    if (found == steps.end()) return std::nullopt;
    std::vector<double> launches;
    for (const auto& [run_id, step_s] : found->second) launches.push_back(step_s);
    return Mean(launches);
  }
};

class Answer {
 public:
  explicit Answer(const StrategiesQuestion& question) : place_(question.place) {
    records_ = ReadAny(question.records);
    calibrations_ = ReadAny(question.calibrations);
    Records floors;
    for (const Record& record : records_) {
      const bool is_model = question.model.empty() || record.config.StringOr("model", "") == question.model;
      if (!IsFloor(record) || !is_model) continue;
      // Only floors of one cell and one run count.
      if (floors.empty() || (CellOf(record) == CellOf(*floors.front()) &&
                             record.facts.StringOr("launch_set", record.run_id) ==
                                 floors.front()->facts.StringOr("launch_set", floors.front()->run_id)))
        floors.push_back(&record);
    }
    rounds_ = RoundsOf(floors);
    Require(!rounds_.empty(), question.model.empty() ? "" : Join("model ", question.model, ": "),
            "no steps of the floor with ready times: give records of //bench:plan or //bench:ddp "
            "that have the variant none");
    floor_ = floors.front();
    recorded_on_host_ = std::ranges::count_if(floors, [&](const Record* const one) {
      return one->run_id == floor_->run_id && MachineOf(*one) == MachineOf(*floor_);
    });
    const std::vector<std::string>& wanted = question.variants;
    Records of_world;
    for (const Record& one : calibrations_) {
      if (one.world_size > 1) of_world.push_back(&one);
    }
    for (const Record* const one : of_world) {
      calibrated_world_ = of_world.front()->world_size;
      Require(one->world_size == calibrated_world_, "--calibration: records of ", calibrated_world_,
              " and of ", one->world_size, " ranks");
    }
    std::map<std::string, std::optional<Calibration>> by_backend;
    for (const Record& record : records_) {
      const bool is_known = std::ranges::count(candidates_, record.variant.name(), &Candidate::name) > 0;
      const bool is_wanted = wanted.empty() || std::ranges::count(wanted, record.variant.name()) > 0 ||
                             std::ranges::count(wanted, record.variant.strategy) > 0;
      if (is_known || !is_wanted || CellOf(record) != CellOf(*floor_)) continue;
      std::optional<StepPlan> plan = PlanOf(record);
      const std::string& backend = record.variant.backend;
      if (!plan || ((place_.wire || place_.link) && backend == "shm")) continue;
      const auto [calibration, is_new] = by_backend.try_emplace(backend);
      if (is_new)
        calibration->second = CalibrationOf(of_world, backend, floor_->config.StringOr("model", ""));
      candidates_.push_back({&record, std::move(*plan), calibration->second});
    }
    for (const std::string& one : wanted) {
      const bool is_there = std::ranges::any_of(candidates_, [&](const Candidate& candidate) {
        return candidate.name() == one || candidate.record->variant.strategy == one;
      });
      Require(is_there, "--variants: ", one,
              " cannot be predicted, or has no plan here: exact variants can be, but for those that gather "
              "weights before they are read (zero3, zero1:gather=forward), and over shm on one host alone");
    }
    Require(!candidates_.empty(), "no variant that can be predicted: exact ones that communicate can be");
    Require(calibrations_.empty() ||
                std::ranges::any_of(candidates_,
                                    [](const Candidate& one) { return one.calibration.has_value(); }),
            "--calibration: no records of //bench:calibrate over a backend of these variants");
    if (place_.world_size == 0) place_.world_size = floor_->world_size;
    if (!question.measured.empty()) ReadMeasured(ReadAny(question.measured));
  }

  void Print(std::ostream& out) const {
    struct Line {
      std::string name;
      Prediction prediction;
    };
    std::vector<Line> lines;
    const double crowding = ProcessorsAt(candidates_.front(), place_).crowding();
    bool assumes_processor = false;
    for (const Candidate& candidate : candidates_) {
      lines.push_back({candidate.name(), Predict(candidate, place_)});
      assumes_processor |= IsAssumed(candidate, place_);
    }
    std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.prediction.step_s.value; });
    const Prediction& best = lines.front().prediction;
    out << floor_->config.StringOr("model", "") << ", " << RankCount(place_.world_size) << WireText(place_);
    const MeasuredAt* const measured = MeasuredHere();
    out << "; without synchronisation " << Milliseconds(best.none_s) << " ms";
    const auto measured_step = [&](const std::string& variant) {
      return measured != nullptr ? measured->Step(variant) : std::nullopt;
    };
    if (const std::optional<double> none_s = measured_step(floor_->variant.name())) {
      out << absl::StrFormat(" (measured %s, %+.1f %%)", Milliseconds(*none_s),
                             100 * (best.none_s / *none_s - 1));
    }
    out << ", computed as on " << floor_->provenance.cpu_model << ".\n\n";
    out << absl::StrFormat("%-40s %10s  %-20s %9s %9s %9s%s\n", "variant", "step (ms)", "95 %", "exposed",
                           "floor", "(%)", measured != nullptr ? "  measured  error (%)" : "");
    std::vector<std::string> as_good;
    for (const auto& [name, prediction] : lines) {
      const Estimate& step = prediction.step_s;
      if (IsAsGood(step, best.step_s)) as_good.push_back(name);
      out << absl::StrFormat(
          "%-40s %10s  %-20s %9s %9s %+9.1f", name, Milliseconds(step.value),
          absl::StrFormat("%s to %s", Milliseconds(step.interval.low), Milliseconds(step.interval.high)),
          Milliseconds(prediction.exposed_s), Milliseconds(prediction.floor_s),
          100 * (step.value / best.step_s.value - 1));
      if (const std::optional<double> step_s = measured_step(name))
        out << absl::StrFormat(" %9s  %+9.1f", Milliseconds(*step_s), 100 * (step.value / *step_s - 1));
      out << "\n";
    }
    if (crowding > 1) {
      out << absl::StrFormat(
          "\nNo verdict: oversubscribed. %d ranks share %d processors, and compute at 1 / %.3g of the "
          "pace.\n",
          RanksOnHost(place_), floor_->provenance.cpu_count, crowding);
    } else {
      out << (as_good.size() == 1 ? "\nFastest: "
                                  : "\nUndecided, intervals overlap or differ by less than 1 %: ")
          << Listed(as_good) << ".\n";
    }
    if (assumes_processor) {
      out << absl::StrFormat("Assumed: communication uses %g (0 to %g) of a rank's processors.\n",
                             kAssumedProcessor, kMostProcessor);
    }
    out << WireAssumption(place_);
    if (!place_.wire && place_.world_size != LinkWorld()) out << "Assumed: collectives go around a ring.\n";
  }

  void WriteMap(const std::string& path) const {
    std::vector<const Candidate*> candidates;  // hosts share no memory
    for (const Candidate& candidate : candidates_)
      if (candidate.record->variant.backend != "shm") candidates.push_back(&candidate);
    Require(!candidates.empty(), "--out: no variant that can be predicted between hosts");
    const double tokens = static_cast<double>(floor_->facts.IntOr("tokens_per_step", 1)) /
                          static_cast<double>(floor_->world_size);
    const auto winner = [&](double gbit, int64_t ranks, double more_tokens) {
      Place there = place_;
      there.wire = Wire{gbit * 1e9 / 8, place_.wire ? place_.wire->latency_s : 5e-6};
      there.world_size = ranks;
      std::vector<Estimate> steps;
      for (const Candidate* const candidate : candidates)
        steps.push_back(Predict(*candidate, there, more_tokens).step_s);
      return Winner(steps);
    };
    WinnersPanel by_tokens{.quantity = "tokens of a rank in a step", .low = tokens / 8, .high = tokens * 64},
        by_ranks{.quantity = "ranks", .low = 2, .high = 1024};
    by_tokens.winner = [&](double gbit, double value) {
      return winner(gbit, place_.world_size, value / tokens);
    };
    by_ranks.winner = [&](double gbit, double value) { return winner(gbit, static_cast<int64_t>(value), 1); };
    for (const MeasuredAt& measured : measured_) {
      if (measured.gbit == 0) continue;
      std::vector<Estimate> steps;
      for (const Candidate* const candidate : candidates) {
        const double seconds = measured.Step(candidate->name()).value_or(1e9);
        steps.push_back({.value = seconds, .interval = {seconds, seconds}});
      }
      const std::optional<size_t> fastest = Winner(steps);
      if (measured.world_size == place_.world_size)
        by_tokens.measured.push_back({measured.gbit, tokens, fastest});
      by_ranks.measured.push_back({measured.gbit, static_cast<double>(measured.world_size), fastest});
    }
    std::vector<std::string> names;
    for (const Candidate* const candidate : candidates) names.push_back(candidate->name());
    WriteWinnersMap(path, names, {by_tokens, by_ranks});
  }

 private:
  // The prediction of one candidate. Where a constant is assumed, the interval holds its predictions over all
  // of its range. `tokens`: how many times the tokens of a recorded step; computation is in proportion to
  // them.
  Prediction Predict(const Candidate& candidate, const Place& place, double tokens = 1) const {
    StepInputs inputs{.plan = candidate.plan,
                      .rounds = rounds_,
                      .world_size = place.world_size,
                      .calibration = CalibrationAt(candidate, place)};
    for (std::vector<Round>& rank : inputs.rounds) {
      for (Round& round : rank) {
        round.forward_s *= tokens;
        round.backward_s *= tokens;
        for (double& ready : round.ready_s) ready *= tokens;
      }
    }
    for (const int64_t bytes : floor_->parameter_bytes)
      inputs.parameter_bytes.push_back(static_cast<double>(bytes));
    Prediction prediction = PredictStep(inputs);
    if (!IsAssumed(candidate, place)) return prediction;
    for (const double processor : {0.0, kMostProcessor}) {
      inputs.calibration.link = inputs.calibration.link.WithProcessor(processor);
      const Interval other = PredictStep(inputs).step_s.interval;
      Interval& all = prediction.step_s.interval;
      all = {std::min(all.low, other.low), std::max(all.high, other.high)};
    }
    return prediction;
  }

  // How many ranks the link that is used was measured between.
  int64_t LinkWorld() const { return place_.link ? place_.link->world_size : calibrated_world_; }

  static int64_t RanksOnHost(const Place& place) { return std::min(place.ranks_per_host, place.world_size); }

  // Without a link of its own the place is the recorded host, whose processors its ranks share. A GPU's
  // computation uses none. More threads than processors have been as slow where they were recorded.
  RankProcessors ProcessorsAt(const Candidate& candidate, const Place& place) const {
    RankProcessors processors = candidate.calibration ? candidate.calibration->processors : RankProcessors{};
    if (place.wire || place.link || floor_->config.StringOr("device", "") != "cpu") return processors;
    const double threads = processors.computing * static_cast<double>(recorded_on_host_),
                 cpus = std::max(threads, static_cast<double>(floor_->provenance.cpu_count));
    processors.available = std::min(processors.available, cpus / static_cast<double>(RanksOnHost(place)));
    return processors;
  }

  // Whether nobody has measured what communication uses of processors.
  bool IsAssumed(const Candidate& candidate, const Place& place) const {
    if (place.processor) return false;
    if (!place.wire && place.link) return !place.link->has_processor;
    return !candidate.calibration.has_value();
  }

  Calibration CalibrationAt(const Candidate& candidate, const Place& place) const {
    const std::optional<Calibration>& measured = candidate.calibration;
    std::optional<MeasuredLink> recorded;
    if (measured) recorded = {measured->link, calibrated_world_};
    LinkCosts costs = CostsAt(place, recorded);
    if (IsAssumed(candidate, place)) costs = costs.WithProcessor(kAssumedProcessor);
    Calibration calibration = measured.value_or(Calibration{.link = costs});
    calibration.link = costs;
    calibration.processors = ProcessorsAt(candidate, place);
    if (place.wire) calibration.log_error = std::max(calibration.log_error, kAssumedLinkError);
    return calibration;
  }

  // Keeps the steps of this model and batch.
  void ReadMeasured(const std::vector<Record>& records) {
    for (const Record& record : records) {
      const auto& [own, floor] = std::tie(record.config, floor_->config);
      const double gbit = 1e-9 * static_cast<double>(own.IntOr("link_rate", 0));
      const std::vector<int64_t>* const steps = record.samples.Find("step_ns");
      if (steps == nullptr || own.StringOr("model", "") != floor.StringOr("model", "") ||
          own.IntOr("batch_size", 0) != floor.IntOr("batch_size", 0) ||
          own.IntOr("seq_len", 0) != floor.IntOr("seq_len", 0))
        continue;
      auto at = std::ranges::find_if(measured_, [&](const MeasuredAt& one) {
        return one.gbit == gbit && one.world_size == record.world_size;
      });
      if (at == measured_.end())
        at = measured_.insert(at, {.gbit = gbit, .world_size = record.world_size, .steps = {}});
      std::vector<double> seconds;
      for (const int64_t ns : *steps) seconds.push_back(1e-9 * static_cast<double>(ns));
      double& step_s = at->steps[record.variant.name()][record.run_id];
      step_s = std::max(step_s, TrimmedMean(seconds));
    }
    Require(!measured_.empty(), "--measured: no steps of ", floor_->config.StringOr("model", ""),
            " with the batch of the records");
  }
  // What was measured over the place's own link.
  const MeasuredAt* MeasuredHere() const {
    const double gbit = place_.wire ? 8e-9 * place_.wire->bytes_per_second : 0;
    for (const MeasuredAt& one : measured_) {
      const bool same_rate = !place_.link && std::abs(one.gbit - gbit) <= 1e-6 * gbit;
      if (same_rate && one.world_size == place_.world_size) return &one;
    }
    return nullptr;
  }

  Place place_;
  std::vector<Record> records_, calibrations_;
  const Record* floor_ = nullptr;
  int64_t recorded_on_host_ = 0, calibrated_world_ = 0;  // ranks
  std::vector<std::vector<Round>> rounds_;
  std::vector<Candidate> candidates_;
  std::vector<MeasuredAt> measured_;
};

}  // namespace

void PrintStrategiesAnswer(const StrategiesQuestion& question, std::ostream& out) {
  const Answer answer(question);
  answer.Print(out);
  if (!question.figure.empty()) answer.WriteMap(question.figure);
}

}  // namespace gradsync::tools
