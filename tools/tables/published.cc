#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "model/error.h"
#include "tools/tables/builder.h"
#include "tools/tables/fields.h"

// Whether what was printed beside published times follows from them, and what their rows do not compare.
namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Statistic {
  const char* heading;
  const char* name;  // in the record
  double PublishedStatistics::*value;
};
constexpr Statistic kStatistics[] = {{"Mean", "mean", &PublishedStatistics::mean},
                                     {"median", "median", &PublishedStatistics::median},
                                     {"p90", "p90", &PublishedStatistics::p90},
                                     {"p95", "p95", &PublishedStatistics::p95},
                                     {"p99", "p99", &PublishedStatistics::p99}};

// Numbers of six digits are within this part of what they stand for.
constexpr double kRoundingOfSixDigits = 5e-6;

// Printed numbers of one sort, against what the published times give.
struct Agreement {
  std::string run;
  std::string printed;
  int64_t numbers = 0;
  int64_t differ = 0;
  double largest = 0;
  double there_printed = kNaN;
  double there_recomputed = kNaN;
  std::string where;

  void Add(double as_printed, double recomputed, double rounding, const std::string& place) {
    if (std::isnan(as_printed) || std::isnan(recomputed)) return;
    const double difference = std::abs(as_printed - recomputed);
    ++numbers;
    if (difference > rounding) ++differ;
    if (difference < largest) return;
    largest = difference;
    there_printed = as_printed;
    there_recomputed = recomputed;
    where = place;
  }
};

std::vector<Field<Agreement>> Fields() {
  return {
      {{.name = "run", .kind = Kind::kText}, &Agreement::run},
      {{.name = "printed", .kind = Kind::kText}, &Agreement::printed},
      {{.name = "numbers", .kind = Kind::kInteger}, &Agreement::numbers},
      {{.name = "differ beyond rounding", .kind = Kind::kInteger}, &Agreement::differ},
      {{.name = "largest difference", .kind = Kind::kScientific}, &Agreement::largest},
      {{.name = "there printed", .kind = Kind::kPlain}, &Agreement::there_printed},
      {{.name = "there recomputed", .kind = Kind::kPlain}, &Agreement::there_recomputed},
      {{.name = "where", .kind = Kind::kText}, &Agreement::where},
  };
}

// "strategy flat, batch 2, sequence 128"
std::string PlaceOf(const Measurement& measurement) {
  std::string place = "strategy " + measurement.strategy();
  const auto add = [&](const char* what, const char* name) {
    const double value = ConfigNumber(measurement, name);
    if (!std::isnan(value)) place += Join(", ", what, " ", value);
  };
  add("batch", "batch_size");
  add("sequence", "seq_len");
  const double buffer_m = ConfigNumber(measurement, "buffer_elements") / (1 << 20);
  if (!std::isnan(buffer_m)) place += Join(", buffer ", buffer_m, "M");
  return place;
}

class PublishedTables : public TableBuilder {
 public:
  std::string_view experiment() const override { return ""; }
  std::string_view main_samples() const override { return ""; }
  bool Takes(const Measurement& measurement) const override { return measurement.is_published(); }

  void Add(const Measured& row) override {
    const Measurement& measurement = row.own;
    const Measurement& baseline = row.baseline;
    CheckRatio(measurement);
    for (const char* phase : {"forward", "backward_and_sync"}) {
      const std::string name = std::string(phase) + "_ns";
      const Series* series = measurement.Find(name);
      const Series* base = baseline.Find(name);
      const bool is_compared = measurement.record.experiment == "compare" && series != nullptr;
      if (!is_compared || !series->published || base == nullptr || !base->published) continue;
      AddPhase(measurement, baseline, phase, *series, *base);
    }
  }

  void Finish(std::vector<Table>* tables) override {
    TableOf<Agreement> printed("printed", "Printed beside published times, and recomputed from them",
                               Fields());
    int64_t numbers = 0;
    int64_t differ = 0;
    for (const Agreement& agreement : agreements_) {
      numbers += agreement.numbers;
      differ += agreement.differ;
      printed.Add(agreement);
    }
    if (printed.num_rows() == 0) return;
    printed.AddFinding(Join("Of ", numbers, " printed differences and ratios ", numbers - differ,
                            " follow from the printed times, as far as rounding lets one tell; ", differ,
                            " do not."));
    AddEqualBytes(&printed);
    tables->push_back(std::move(printed));
  }

 private:
  Agreement& AgreementOf(const Measurement& measurement, const std::string& printed) {
    const std::string& run = measurement.record.run_id;
    const auto found = std::find_if(agreements_.begin(), agreements_.end(), [&](const Agreement& agreement) {
      return agreement.run == run && agreement.printed == printed;
    });
    if (found != agreements_.end()) return *found;
    Agreement& agreement = agreements_.emplace_back();
    agreement.run = run;
    agreement.printed = printed;
    return agreement;
  }

  void CheckRatio(const Measurement& measurement) {
    const auto step = measurement.record.published.find("step_ns");
    const Series* sync = measurement.Find("sync_exposed_ns");
    if (step == measurement.record.published.end() || sync == nullptr) return;
    const double step_s = measurement.Find("step_ns")->mean();
    const double ratio = sync->mean() / step_s;
    // Either so many decimals of all three, or so many digits.
    const double decimals_s = 1e-9 * step->second.DoubleOr("rounding_ns", 0);
    const double rounding =
        decimals_s > 0 ? decimals_s + decimals_s * (1 + ratio) / step_s : 3 * kRoundingOfSixDigits * ratio;
    AgreementOf(measurement, "ratio of synchronisation")
        .Add(step->second.DoubleOr("printed_ratio", kNaN), ratio, rounding, PlaceOf(measurement));
  }

  void AddPhase(const Measurement& measurement, const Measurement& baseline, const std::string& phase,
                const Series& series, const Series& base) {
    const bench::Fields& printed = measurement.record.published.at(phase + "_ns");
    for (const Statistic& statistic : kStatistics) {
      const double own = (*series.published).*statistic.value;
      const double other = (*base.published).*statistic.value;
      const double delta = 100 * (own / other - 1);
      const double rounding = 100 * 2 * kRoundingOfSixDigits * own / other + kRoundingOfSixDigits;
      AgreementOf(measurement, "delta%")
          .Add(printed.DoubleOr(Join("printed_delta_", statistic.name, "_percent"), kNaN), delta, rounding,
               Join(statistic.heading, " of ", phase, ", ", PlaceOf(measurement)));
    }
    const double bucket_bytes = ConfigNumber(measurement, "bucket_bytes");
    points_.push_back({phase, measurement.strategy(), &measurement == &baseline, bucket_bytes, series.mean(),
                       100 * (series.mean() / base.mean() - 1)});
    baseline_name_ = baseline.strategy();
  }

  // Where a row compares buckets of different sizes, the fair row may be another one.
  void AddEqualBytes(Table* table) const {
    struct Fair {
      double low = std::numeric_limits<double>::infinity();
      double high = -std::numeric_limits<double>::infinity();
      void Add(double value) { low = std::min(low, value), high = std::max(high, value); }
      std::string Text() const { return Join(Percent(low), " to ", Percent(high), " %"); }
    };
    std::map<std::pair<std::string, std::string>, std::array<Fair, 3>> found;  // fair, as printed, MiB
    for (const Point& point : points_) {
      for (const Point& base : points_) {
        const bool is_fair = base.is_baseline && base.phase == point.phase && !point.is_baseline &&
                             base.bucket_bytes == point.bucket_bytes;
        const double difference = 100 * (point.mean_s / base.mean_s - 1);
        if (!is_fair || difference == point.delta_percent) continue;
        auto& [fair, printed, mib] = found[{point.phase, point.strategy}];
        fair.Add(difference);
        printed.Add(point.delta_percent);
        mib.Add(point.bucket_bytes / (1 << 20));
      }
    }
    for (const auto& [what, ranges] : found) {
      const auto& [fair, printed, mib] = ranges;
      table->AddFinding(Join("At equal bytes per bucket (", mib.low, " to ", mib.high, " MiB) ", what.second,
                             " differs from ", baseline_name_, " by ", fair.Text(), " in ", what.first,
                             ", where the rows of one label say ", printed.Text(),
                             "; without samples nothing says how sure either is."));
    }
  }

  static std::string Percent(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%+.1f", value);
    return text;
  }

  struct Point {
    std::string phase;
    std::string strategy;
    bool is_baseline = false;
    double bucket_bytes = 0;
    double mean_s = 0;
    double delta_percent = 0;
  };

  std::string baseline_name_;
  std::vector<Point> points_;
  std::vector<Agreement> agreements_;
};

}  // namespace

std::unique_ptr<TableBuilder> MakePublishedTables(const TableOptions&) {
  return std::make_unique<PublishedTables>();
}

}  // namespace gradsync::tools
