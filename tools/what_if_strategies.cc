#include "tools/what_if_strategies.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "model/error.h"
#include "tools/predict/calibrate.h"
#include "tools/records/reader.h"
#include "tools/reports/winners_map.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

using bench::Record;

// What nobody has measured: the part of a rank's processors that communication uses, and how far a link is
// from its data sheet, as a standard deviation of the logarithm.
constexpr double kAssumedProcessor = 0.1, kMostProcessor = 0.3, kAssumedLinkError = 0.1;

// Predictions that are closer than this are not told apart, whatever their intervals.
constexpr double kTellsApart = 0.01;

bool IsAsGood(const Estimate& step, const Estimate& best) {
  return step.interval.low <= best.interval.high || step.value <= (1 + kTellsApart) * best.value;
}

bool IsFloor(const Record& record) { return record.variant.strategy == record.facts.StringOr("floor", ""); }

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g", 1e3 * seconds); }

// A variant, and all that is known of it.
struct Candidate {
  const Record* record;
  StepPlan plan;
};

class Answer {
 public:
  Answer(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations,
         const std::vector<std::string>& wanted, const Place& place)
      : place_(place) {
    Problems problems;
    records_ = ReadEach(inputs, &problems);
    calibrations_ = ReadEach(calibrations, &problems);
    Records floors;
    for (const Record& record : records_) {
      if (!IsFloor(record)) continue;
      // Only floors of one cell and one run count.
      if (floors.empty() || (CellOf(record) == CellOf(*floors.front()) &&
                             record.facts.StringOr("launch_set", record.run_id) ==
                                 floors.front()->facts.StringOr("launch_set", floors.front()->run_id)))
        floors.push_back(&record);
    }
    rounds_ = RoundsOf(floors);
    Require(!rounds_.empty(),
            "no steps of the floor with ready times: give records of //bench:plan or //bench:ddp "
            "that have the variant none");
    floor_ = floors.front();
    for (const Record& record : records_) {
      const bool is_known = std::ranges::count(candidates_, record.variant.name(), NameOf) > 0;
      const bool is_wanted = wanted.empty() || std::ranges::count(wanted, record.variant.name()) > 0 ||
                             std::ranges::count(wanted, record.variant.strategy) > 0;
      if (is_known || !is_wanted || CellOf(record) != CellOf(*floor_)) continue;
      if (std::optional<StepPlan> plan = PlanOf(record)) candidates_.push_back({&record, std::move(*plan)});
    }
    Require(!candidates_.empty(), "no variant that can be predicted: exact ones that communicate can be");
    if (place_.world_size == 0) place_.world_size = floor_->world_size;
  }

  // The prediction of one candidate. Where a constant is assumed, the interval holds its predictions over all
  // of its range. `tokens`: how many times the tokens of a recorded step; computation is in proportion to
  // them.
  Prediction Predict(const Candidate& candidate, const Place& place, double tokens = 1) const {
    StepInputs inputs{.plan = candidate.plan,
                      .rounds = rounds_,
                      .world_size = place.world_size,
                      .calibration = CalibrationAt(*candidate.record, place)};
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
    if (!IsAssumed(*candidate.record, place)) return prediction;
    for (const double processor : {0.0, kMostProcessor}) {
      inputs.calibration.link = inputs.calibration.link.WithProcessor(processor);
      const Interval other = PredictStep(inputs).step_s.interval;
      Interval& all = prediction.step_s.interval;
      all = {std::min(all.low, other.low), std::max(all.high, other.high)};
    }
    return prediction;
  }

  void Print(std::ostream& out) const {
    struct Line {
      std::string name;
      Prediction prediction;
    };
    std::vector<Line> lines;
    for (const Candidate& candidate : candidates_)
      lines.push_back({NameOf(candidate), Predict(candidate, place_)});
    std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.prediction.step_s.value; });
    const Prediction& best = lines.front().prediction;
    out << floor_->config.StringOr("model", "") << ", " << RankCount(place_.world_size);
    if (place_.link) {
      out << absl::StrFormat(" (%d on a host), %.4g Gbit/s and %.4g us between hosts", place_.ranks_per_host,
                             8e-9 * place_.link->bytes_per_second, 1e6 * place_.link->latency_s);
    }
    out << absl::StrFormat("; without synchronisation %s ms, computed as on %s.\n\n",
                           Milliseconds(best.none_s), floor_->provenance.cpu_model);
    out << absl::StrFormat("%-40s %10s  %-20s %9s %9s %9s\n", "variant", "step (ms)", "95 %", "exposed",
                           "floor", "(%)");
    std::vector<std::string> as_good;
    for (const auto& [name, prediction] : lines) {
      const Estimate& step = prediction.step_s;
      if (IsAsGood(step, best.step_s)) as_good.push_back(name);
      out << absl::StrFormat(
          "%-40s %10s  %-20s %9s %9s %+9.1f\n", name, Milliseconds(step.value),
          absl::StrFormat("%s to %s", Milliseconds(step.interval.low), Milliseconds(step.interval.high)),
          Milliseconds(prediction.exposed_s), Milliseconds(prediction.floor_s),
          100 * (step.value / best.step_s.value - 1));
    }
    out << (as_good.size() == 1 ? "\nFastest: "
                                : "\nUndecided, intervals overlap or differ by less than 1 %: ")
        << Listed(as_good) << ".\n";
    if (std::ranges::any_of(candidates_,
                            [&](const Candidate& one) { return IsAssumed(*one.record, place_); })) {
      out << absl::StrFormat("Assumed: communication uses %g (0 to %g) of a rank's processors.\n",
                             kAssumedProcessor, kMostProcessor);
    }
    if (place_.link) {
      out << absl::StrFormat(
          "Assumed: the link is within %g %% of its data sheet; ranks of a host exchange %.4g Gbit/s.\n",
          100 * kAssumedLinkError, 8e-9 * place_.within.bytes_per_second);
    } else if (place_.world_size != floor_->world_size) {
      out << "Assumed: collectives go around a ring.\n";
    }
  }

  // Which candidate is fastest: its index, or none where intervals overlap.
  std::optional<size_t> Winner(const Place& place, double tokens) const {
    std::vector<Estimate> steps;
    for (const Candidate& candidate : candidates_) steps.push_back(Predict(candidate, place, tokens).step_s);
    const auto best = std::ranges::min_element(steps, {}, &Estimate::value);
    for (auto step = steps.begin(); step != steps.end(); ++step) {
      if (step != best && IsAsGood(*step, *best)) return std::nullopt;
    }
    return static_cast<size_t>(best - steps.begin());
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const Candidate& candidate : candidates_) names.push_back(NameOf(candidate));
    return names;
  }
  const Place& place() const { return place_; }
  double tokens() const {
    return static_cast<double>(floor_->facts.IntOr("tokens_per_step", 1)) /
           static_cast<double>(floor_->world_size);
  }

 private:
  static std::string NameOf(const Candidate& candidate) { return candidate.record->variant.name(); }

  std::optional<Calibration> Calibrated(const Record& record) const {
    Records of_world;
    for (const Record& one : calibrations_) {
      if (one.world_size > 1) of_world.push_back(&one);
    }
    return CalibrationOf(of_world, record.variant.backend);
  }
  // Whether nobody has measured what communication uses of processors.
  bool IsAssumed(const Record& record, const Place& place) const {
    return !place.processor && !Calibrated(record).has_value();
  }

  Calibration CalibrationAt(const Record& record, const Place& place) const {
    std::optional<Calibration> measured = Calibrated(record);
    if (!place.link) {
      Require(measured.has_value(), record.variant.name(), ": no calibration of ", record.variant.backend,
              ", and no --link");
      const int64_t from = calibrations_.front().world_size;
      if (place.world_size != from) measured->link = InRingOf(measured->link, from, place.world_size);
      return *measured;
    }
    const Network network{place.world_size, place.ranks_per_host, *place.link, place.within, place.algorithm};
    constexpr double kManyBytes = 16 << 20;
    const CollectiveKind kind = CollectiveKind::kAllReduce;
    // CPU-seconds for each byte are those of the machine, whatever the link.
    const double processor_s = measured ? measured->link.Seconds(kind, kManyBytes) *
                                              measured->link.Processor(kind, kManyBytes, 1) / kManyBytes
                                        : 0;
    const LinkCosts costs = CostsOver(network, processor_s);
    Calibration calibration = measured.value_or(Calibration{.link = costs});
    calibration.link = costs;
    if (place.processor || !measured)
      calibration.link = costs.WithProcessor(place.processor.value_or(kAssumedProcessor));
    calibration.log_error = std::max(calibration.log_error, kAssumedLinkError);
    return calibration;
  }

  Place place_;
  std::vector<Record> records_, calibrations_;
  const Record* floor_ = nullptr;
  std::vector<std::vector<Round>> rounds_;
  std::vector<Candidate> candidates_;
};

}  // namespace

void PrintVariantsAnswer(const std::vector<std::string>& inputs, const std::vector<std::string>& calibrations,
                         const std::vector<std::string>& variants, const Place& place,
                         const std::string& figure, std::ostream& out) {
  const Answer answer(inputs, calibrations, variants, place);
  answer.Print(out);
  if (figure.empty()) return;
  const auto at_rate = [&](double gbit) {
    Place there = answer.place();
    there.link = Wire{gbit * 1e9 / 8, there.link ? there.link->latency_s : 5e-6};
    return there;
  };
  const auto by_tokens = [&](double gbit, double tokens) {
    return answer.Winner(at_rate(gbit), tokens / answer.tokens());
  };
  const auto by_ranks = [&](double gbit, double ranks) {
    Place there = at_rate(gbit);
    there.world_size = static_cast<int64_t>(ranks);
    return answer.Winner(there, 1);
  };
  WriteWinnersMap(figure, answer.Names(),
                  {{"tokens of a rank in a step", answer.tokens() / 8, answer.tokens() * 64, by_tokens},
                   {"ranks", 2, 1024, by_ranks}});
}

}  // namespace gradsync::tools
