#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_join.h"
#include "model/error.h"
#include "tools/tables/fields.h"
#include "tools/tables/words.h"

// Over which links a strategy pays: of runs that differ in the rate of the link alone (`link_rate`), the rate
// below which its step is shorter than the baseline's. Beside it runs of the same variants without a link.
namespace gradsync::tools {
namespace {

struct OverLinks {
  View any;
  std::map<double, View> by_rate{};          // bits per second
  std::map<std::string, View> by_backend{};  // without a link
};

// Of the views by something, the difference of the one there.
template <class Place>
auto DeltaAt(Place place, std::map<Place, View> OverLinks::*views) {
  return [=](const OverLinks& row) {
    const auto found = (row.*views).find(place);
    return found == (row.*views).end() ? Estimate{} : Scaled(found->second.row.against_baseline, 100);
  };
}

// What rows have in common that differ in link and backend alone.
std::string KeyWithoutLink(const Row& row) {
  Configuration configuration = ConfigurationOf(row.measured->record);
  for (const char* const differs : {"link_rate", "backend", "variant"}) configuration.erase(differs);
  return Join(row.measured->world_size(), "\n", row.label(), "\n", KeyOf(configuration));
}

bool IsCompared(const Cell& cell, size_t row) {
  return cell.rows[row].baseline != Row::kNone && cell.rows[row].baseline != row;
}

std::string RateText(double rate) {
  return rate < 1e9 ? Join(std::llround(rate / 1e6), " Mbit/s") : Join(rate / 1e9, " Gbit/s");
}

// What intervals show: the highest rate with a faster step, and the lowest above it with a slower one.
std::string BoundsOf(const OverLinks& row) {
  double faster = 0, slower = 0;
  for (const auto& [rate, view] : row.by_rate) {
    if (view.row.verdict == Verdict::kFaster) faster = rate, slower = 0;
    if (view.row.verdict == Verdict::kSlower && slower == 0) slower = rate;
  }
  if (faster > 0 && slower > 0) return Join(RateText(faster), " to ", RateText(slower));
  if (faster > 0) return "more than " + RateText(faster);
  return slower > 0 ? "less than " + RateText(slower) : "not shown";
}

// Where the difference of steps changes its sign. Between two rates it is taken to be linear in the time that
// a byte takes.
double CrossingOf(const OverLinks& row) {
  double crossing = kNaN;
  double last_time = 0, last = 0;
  for (const auto& [rate, view] : row.by_rate) {
    const double time = 1e9 / rate;
    const double difference = view.row.against_baseline.value * view.base()->step_s;
    if (last < 0 && difference >= 0)
      crossing = 1 / (time + (last_time - time) * difference / (difference - last));
    last_time = time, last = difference;
  }
  return crossing;
}

std::vector<Field<OverLinks>> FieldsFor(const std::set<double>& rates,
                                        const std::set<std::string>& backends) {
  enum Section { kHeadline = 1, kDetails };
  const auto delta = [](const std::string& place) {
    return Column{.name = Join("delta ", place, " (%)"), .kind = Kind::kPercent, .section = kHeadline};
  };
  std::vector<Field<OverLinks>> fields = {
      {{.name = "variant", .kind = Kind::kText}, [](const OverLinks& row) { return row.any.row.label(); }},
      {{.name = "backend", .kind = Kind::kText, .said_once = true},
       [](const OverLinks& row) { return row.any.row.backend(); }},
      {{.name = "faster below", .kind = Kind::kText}, BoundsOf},
      {{.name = "estimate (Gbit/s)", .digits = 2, .section = kDetails}, CrossingOf}};
  for (const std::string& backend : backends)
    fields.push_back({delta("over " + backend), DeltaAt(backend, &OverLinks::by_backend)});
  for (auto rate = rates.rbegin(); rate != rates.rend(); ++rate)
    fields.push_back({delta("at " + RateText(*rate)), DeltaAt(*rate, &OverLinks::by_rate)});
  fields.push_back({{.name = "verified", .kind = Kind::kText, .section = kDetails},
                    [](const OverLinks& row) { return EqualityOf(row.any.measured()); }});
  fields.push_back({{.name = "baseline", .kind = Kind::kText, .said_once = true},
                    [](const OverLinks& row) { return row.any.base()->label(); }});
  return fields;
}

}  // namespace

void AddLinksTables(const std::vector<Cell>& all, std::vector<Table>* tables) {
  const std::vector<Cell> cells = TrainingOf(all);
  std::vector<OverLinks> rows;
  std::map<std::string, size_t> numbers;
  std::set<double> rates;
  std::set<std::string> backends;
  for (const Cell& cell : cells) {
    const double rate = ConfigNumber(*cell.any().measured, "link_rate");
    if (std::isnan(rate)) continue;
    for (size_t i = 0; i < cell.rows.size(); ++i) {
      const View view{cell, cell.rows[i]};
      if (!IsCompared(cell, i)) continue;
      const auto [found, is_new] =
          numbers.emplace(Join(KeyWithoutLink(view.row), view.row.backend()), rows.size());
      if (is_new) rows.push_back({view});
      rows[found->second].by_rate.emplace(rate, view);
      rates.insert(rate);
    }
  }
  if (rates.size() < 2) return;
  for (const Cell& cell : cells) {
    for (size_t i = 0; i < cell.rows.size(); ++i) {
      const View view{cell, cell.rows[i]};
      if (!IsCompared(cell, i) || !std::isnan(Number("link_rate")(view))) continue;
      for (OverLinks& row : rows) {
        if (KeyWithoutLink(row.any.row) != KeyWithoutLink(view.row)) continue;
        row.by_backend.emplace(view.row.backend(), view);
        backends.insert(view.row.backend());
      }
    }
  }
  TableOf<OverLinks> table("links", "Which strategy pays over which link", FieldsFor(rates, backends));
  std::map<std::string, std::vector<std::string>> names;  // by the rates
  for (const OverLinks& row : rows) {
    table.Add(row);
    names[BoundsOf(row)].push_back(row.any.row.label());
  }
  std::vector<std::string> parts;
  for (const auto& [bounds, own] : names) parts.push_back(Join(bounds, " (", Listed(own), ")"));
  table.AddFinding(Join("Steps are shorter than the baseline's below: ", absl::StrJoin(parts, "; "), "."));
  table.AddNote(
      "faster below: the rate of the link, in each direction, below which a step is shorter than the "
      "baseline's: shown faster at the first of these rates and slower at the second. estimate: where the "
      "difference is zero, taken as linear in the time of a byte between measured rates. over gloo, over "
      "shm: "
      "without a link, on one host. Intervals of one run hold at once.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
