#include "tools/tables/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "model/error.h"
#include "tools/statistics/significance.h"
#include "tools/tables/run_columns.h"

namespace gradsync::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLevel = 0.05;
constexpr size_t kMaxContenders = 400;
constexpr size_t kMaxGroups = 4;
// Shares that differ by less over a whole grid are no trend worth a sentence.
constexpr double kLeastTrend = 0.02;

constexpr std::string_view kOutlierCell = "outlier-cell";

// Flags that leave nothing to compare, and why.
constexpr std::pair<std::string_view, std::string_view> kVoid[] = {
    {"world=1", "a single rank communicates with nobody"},
    {"traced", "every step also wrote a trace"},
    {"published", "published figures have no samples"},
    {"n<10", "there are fewer than 10 steps"},
};
constexpr std::string_view kDisqualified[] = {"unequal", "wrong"};

bool Has(const std::string& flags, std::string_view word) {
  for (size_t at = flags.find(word); at != std::string::npos; at = flags.find(word, at + 1)) {
    const bool begins = at == 0 || flags[at - 1] == ' ';
    const size_t end = at + word.size();
    if (begins && (end == flags.size() || flags[end] == ' ' || flags[end] == ':')) return true;
  }
  return false;
}

bool Competes(const Contender& contender) {
  const bool is_wrong = std::any_of(std::begin(kDisqualified), std::end(kDisqualified),
                                    [&](std::string_view word) { return Has(contender.flags, word); });
  return !IsFloor(contender.strategy) && !is_wrong;
}

// Empty if the times may be compared.
std::string WhyVoid(const std::vector<Place>& places) {
  for (const auto& [word, reason] : kVoid) {
    for (const Place& place : places) {
      for (const Contender& contender : place.contenders) {
        if (Has(contender.flags, word)) return Join(reason, " (`", word, "`)");
      }
    }
  }
  return "";
}

Pairing PairingOf(const Contender& a, const Contender& b) {
  const bool is_paired = a.is_interleaved && b.is_interleaved && a.steps_s.size() == b.steps_s.size();
  return is_paired ? Pairing::kRounds : Pairing::kNone;
}

struct Difference {
  std::string to;  // the other strategy
  double value = 0;
  Interval interval;
  double p_value = 1;

  bool excludes_zero() const { return interval.high < 0 || interval.low > 0; }
};

// What the fastest mean of a place is worth.
struct Result {
  std::string best;
  std::vector<Difference> differences;  // of best to the others, the closest one first
  double p_value = kNaN;                // the largest of them; adjusted over places
  bool is_shown = false;
};

std::optional<Result> Judge(const Place& place, const BootstrapOptions& bootstrap) {
  std::vector<const Contender*> field;
  for (const Contender& contender : place.contenders) {
    if (Competes(contender)) field.push_back(&contender);
  }
  if (field.size() < 2) return std::nullopt;
  std::stable_sort(field.begin(), field.end(), [](const Contender* a, const Contender* b) {
    return Mean(a->steps_s) < Mean(b->steps_s);
  });
  Result result{.best = field[0]->strategy, .differences = {}, .p_value = 0};
  for (size_t i = 1; i < field.size(); ++i) {
    const Pairing pairing = PairingOf(*field[0], *field[i]);
    const std::vector<double>& best = field[0]->steps_s;
    const std::vector<double>& other = field[i]->steps_s;
    result.differences.push_back({field[i]->strategy, RelativeDifference(best, other),
                                  BootstrapRelativeDifference(best, other, pairing, bootstrap),
                                  DifferencePValue(best, other, pairing)});
    result.p_value = std::max(result.p_value, result.differences.back().p_value);
  }
  return result;
}

std::string Text(const Difference& difference) {
  char text[96];
  std::snprintf(text, sizeof text, "%+.1f %% [%+.1f, %+.1f]", 100 * difference.value,
                100 * difference.interval.low, 100 * difference.interval.high);
  return text;
}

std::string NameOf(const Place& place) {
  return place.name.empty() ? Join(place.batch_size, "x", place.seq_len) : place.name;
}

std::string OnePlace(const Result& result, const Words& words) {
  std::vector<std::string> shown;
  std::vector<std::string> open;
  std::vector<double> p_values;
  for (const Difference& difference : result.differences) p_values.push_back(difference.p_value);
  // The best was chosen by its mean, so each claim about it is one of all pairs'.
  const double pairs = static_cast<double>(p_values.size() + 1) / 2;
  p_values = HolmAdjusted(p_values);
  for (size_t i = 0; i < result.differences.size(); ++i) {
    const Difference& difference = result.differences[i];
    const bool is_shown =
        difference.excludes_zero() && (result.is_shown || std::min(1.0, pairs * p_values[i]) < kLevel);
    (is_shown ? shown : open).push_back(Join(Text(difference), " against ", difference.to));
  }
  if (result.is_shown) return Join(result.best, " is fastest: ", ListOf(shown), " (95 % CI).");
  return Join("No ", words.contender, " is shown to be fastest. ", result.best,
              " has the smallest mean; these data decide nothing about its ", ListOf(open),
              shown.empty() ? "" : ", but show its ", ListOf(shown), " (95 % CI).");
}

// "core is fastest in 5 of 6 cells; ..."
std::string ManyPlaces(const std::vector<Place>& places, const std::vector<Result>& results,
                       const Words& words) {
  std::map<std::string, std::vector<const Result*>> wins;
  std::vector<std::string> open;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].is_shown) {
      wins[results[i].best].push_back(&results[i]);
    } else {
      open.push_back(NameOf(places[i]));
    }
  }
  std::string text;
  for (const auto& [strategy, won] : wins) {
    text += Join(text.empty() ? "" : "; ", strategy, " is fastest ", words.at, " ", won.size(), " of ",
                 results.size(), " ", words.place, "s");
    // The other strategies there, with the least and the largest difference.
    std::map<std::string, std::pair<const Difference*, const Difference*>> ranges;
    for (const Result* result : won) {
      for (const Difference& difference : result->differences) {
        auto& [least, most] = ranges[difference.to];
        if (least == nullptr || difference.value > least->value) least = &difference;
        if (most == nullptr || difference.value < most->value) most = &difference;
      }
    }
    std::vector<std::string> parts;
    for (const auto& [other, range] : ranges) {
      parts.push_back(range.first == range.second
                          ? Join(Text(*range.first), " against ", other)
                          : Join(Text(*range.second), " to ", Text(*range.first), " against ", other));
    }
    text += Join(": ", ListOf(parts));
  }
  if (wins.empty()) {
    return Join(words.at == "in" ? "In" : "At", " none of ", results.size(), " ", words.place, "s is a ",
                words.contender, " shown to be fastest: these data do not decide it.");
  }
  if (!open.empty())
    text += Join("; ", words.at, " ", ListOf(open), " no ", words.contender, " is shown to be fastest");
  return text + " (95 % CI of each " + words.place + ").";
}

// Whether the shares change in one direction with every step of `along`, at every value of the other.
std::string Direction(const std::map<std::pair<double, double>, double>& shares, bool along_batch) {
  bool falls = true;
  bool rises = true;
  size_t steps = 0;
  for (const auto& [place, share] : shares) {
    double nearest = std::numeric_limits<double>::infinity();
    double next = kNaN;
    for (const auto& [other, other_share] : shares) {
      const double fixed = along_batch ? place.second - other.second : place.first - other.first;
      const double distance = along_batch ? other.first - place.first : other.second - place.second;
      if (fixed == 0 && distance > 0 && distance < nearest) nearest = distance, next = other_share;
    }
    if (std::isnan(next)) continue;
    ++steps;
    falls &= next < share;
    rises &= next > share;
  }
  if (steps < 2) return "";
  return falls ? "falls" : rises ? "rises" : "";
}

}  // namespace

std::string ListOf(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    text += Join(i == 0 ? "" : i + 1 == items.size() ? " and " : ", ", items[i]);
  }
  return text;
}

std::vector<std::string> WinnerSentences(const std::vector<Place>& places, const BootstrapOptions& bootstrap,
                                         const Words& words) {
  size_t most = 0;
  for (const Place& place : places) {
    most = std::max(
        most, static_cast<size_t>(std::count_if(place.contenders.begin(), place.contenders.end(), Competes)));
  }
  if (most < 2) return {};
  const std::string reason = WhyVoid(places);
  if (!reason.empty()) return {Join("No ", words.contender, " is called fastest: ", reason, ".")};

  std::vector<Place> judged;
  std::vector<Result> results;
  std::vector<double> p_values;
  for (const Place& place : places) {
    std::optional<Result> result = Judge(place, bootstrap);
    if (!result) continue;
    judged.push_back(place);
    p_values.push_back(result->p_value);
    results.push_back(*std::move(result));
  }
  p_values = HolmAdjusted(p_values);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<Difference>& differences = results[i].differences;
    results[i].is_shown =
        p_values[i] < kLevel && std::all_of(differences.begin(), differences.end(),
                                            [](const Difference& d) { return d.interval.high < 0; });
  }
  std::string text = results.size() == 1 ? OnePlace(results[0], words) : ManyPlaces(judged, results, words);
  bool is_oversubscribed = false;
  for (const Place& place : judged) {
    for (const Contender& contender : place.contenders) {
      is_oversubscribed |= Has(contender.flags, "oversubscribed");
    }
  }
  if (is_oversubscribed) text += " Measured with more threads than CPUs.";
  return {text};
}

std::vector<std::string> TrendSentences(const std::vector<Place>& places) {
  std::map<std::string, std::map<std::pair<double, double>, double>> by_strategy;
  std::map<std::string, std::vector<std::string>> outliers;
  std::set<std::string> ambiguous;
  for (const Place& place : places) {
    for (const Contender& contender : place.contenders) {
      if (IsFloor(contender.strategy) || std::isnan(contender.share)) continue;
      if (Has(contender.flags, kOutlierCell)) {
        outliers[contender.strategy].push_back(NameOf(place));
        continue;
      }
      const bool is_new = by_strategy[contender.strategy]
                              .try_emplace({place.batch_size, place.seq_len}, contender.share)
                              .second;
      if (!is_new) ambiguous.insert(contender.strategy);
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [strategy, shares] : by_strategy) {
    if (ambiguous.contains(strategy)) continue;
    std::vector<std::string> parts;
    for (const bool along_batch : {true, false}) {
      const std::string direction = Direction(shares, along_batch);
      if (!direction.empty()) {
        parts.push_back(Join(direction, " with every larger ", along_batch ? "batch" : "sequence"));
      }
    }
    if (parts.empty()) continue;
    double low = 1;
    double high = 0;
    for (const auto& [place, share] : shares) low = std::min(low, share), high = std::max(high, share);
    if (high - low < kLeastTrend) continue;
    char range[64];
    std::snprintf(range, sizeof range, " (%.0f to %.0f %%", 100 * low, 100 * high);
    const auto left_out = outliers.find(strategy);
    sentences.push_back(Join(
        "In the means, the share of synchronisation under ", strategy, " ", ListOf(parts), range,
        left_out == outliers.end() ? "" : "; without " + ListOf(left_out->second) + ", off the trend", ")."));
  }
  return sentences;
}

std::string Contest::GroupName(std::string_view run, std::string_view model, std::string_view backend,
                               std::string_view device, std::string_view dtype) {
  return Join(run, ", ", model, ", ", backend, ", ", device, ", ", dtype);
}

void Contest::Add(const Measurement& measurement, const Series& steps, const std::string& flags) {
  if (++num_contenders_ > kMaxContenders) return;
  const bench::Record& record = measurement.record;
  const auto field = [&](const char* name) { return record.config.StringOr(name, ""); };
  const std::string group =
      GroupName(record.run_id, field("model"), field("backend"), field("device"), field("dtype"));
  auto found =
      std::find_if(groups_.begin(), groups_.end(), [&](const auto& entry) { return entry.first == group; });
  if (found == groups_.end()) found = groups_.insert(groups_.end(), {group, {}});
  const double batch_size = ConfigNumber(measurement, "batch_size");
  const double seq_len = ConfigNumber(measurement, "seq_len");
  std::vector<Place>& places = found->second;
  auto place = std::find_if(places.begin(), places.end(), [&](const Place& candidate) {
    return candidate.batch_size == batch_size && candidate.seq_len == seq_len;
  });
  if (place == places.end()) place = places.insert(places.end(), Place{batch_size, seq_len, {}});
  std::string strategy = measurement.strategy();
  const auto has_name = [&](const Contender& contender) { return contender.strategy == strategy; };
  if (std::any_of(place->contenders.begin(), place->contenders.end(), has_name)) {
    strategy += Join(" with buckets of ", ConfigNumber(measurement, "bucket_bytes"), " bytes");
  }
  const Series* sync = measurement.Find("sync_exposed_ns");
  place->contenders.push_back(
      {std::move(strategy), steps.max, sync == nullptr ? kNaN : sync->mean() / steps.mean(),
       record.config.StringOr("order", "") == "interleaved" && !measurement.steps_differ, flags});
}

void Contest::CallOutlier(std::string_view group, std::string_view strategy, double batch_size,
                          double seq_len) {
  for (auto& [name, places] : groups_) {
    if (name != group) continue;
    for (Place& place : places) {
      if (place.batch_size != batch_size || place.seq_len != seq_len) continue;
      for (Contender& contender : place.contenders) {
        if (contender.strategy == strategy) contender.flags += Join(" ", kOutlierCell);
      }
    }
  }
}

std::vector<std::string> Contest::Sentences(size_t fewest_places, bool with_trends,
                                            const BootstrapOptions& bootstrap) const {
  if (num_contenders_ > kMaxContenders || groups_.size() > kMaxGroups) return {};
  std::vector<std::string> all;
  for (const auto& [name, places] : groups_) {
    if (places.size() < fewest_places) continue;
    std::vector<std::string> sentences = WinnerSentences(places, bootstrap);
    if (with_trends) Append(TrendSentences(places), &sentences);
    for (std::string& sentence : sentences) {
      all.push_back(groups_.size() == 1 ? std::move(sentence) : Join("Run ", name, ": ", sentence));
    }
  }
  return all;
}

}  // namespace gradsync::tools
