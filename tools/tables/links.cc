#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// The table of links on which a strategy is faster. It is made from runs that differ only in the rate of the
// link (`link_rate`), and from runs of these variants without a link.
namespace gradsync::tools {
namespace {

// A variant that is compared with a baseline.
struct OverLinks {
  View any;
  std::map<double, View> by_rate{};          // views by rate in bits per second
  std::map<std::string, View> by_backend{};  // views without a link, by backend
};

struct Links {
  std::vector<OverLinks> rows{};
  std::set<double, std::greater<>> rates{};
  std::set<std::string> backends{};  // backends of runs without a link
};

// Returns the comparison at `place`; it has no row if there is none.
template <class Place>
Comparison At(const std::map<Place, View>& views, const Place& place) {
  const auto found = views.find(place);
  return found == views.end() ? Comparison() : found->second.comparison();
}

// Returns a key that is equal for rows that differ only in link and backend.
std::string KeyWithoutLink(const Row& row) {
  Configuration configuration = ConfigurationOf(row.measured->record);
  for (const char* const differs : {"link_rate", "variant"}) configuration.erase(differs);
  return Join(row.measured->world_size(), "\n", row.label, "\n", KeyOf(configuration));
}

std::string RatesText(const std::vector<double>& rates) {
  std::vector<std::string> texts;
  for (const double rate : rates) texts.push_back(RateText(rate));
  return Listed(texts);
}

// Returns the measured rates at which the intervals show that the row is faster, or slower: "up to 1 Gbit/s".
std::string FasterWhere(const OverLinks& row) {
  std::vector<double> rates, faster, slower;
  bool is_run = true;  // true if the rates at which the row is faster are consecutive
  for (const auto& [rate, view] : row.by_rate) {
    const Verdict verdict = view.comparison().verdict;
    if (verdict == Verdict::kFaster) {
      is_run &= faster.empty() || faster.back() == rates.back();
      faster.push_back(rate);
    }
    if (verdict == Verdict::kSlower) slower.push_back(rate);
    rates.push_back(rate);
  }
  if (faster.size() == rates.size()) return "at every rate measured";
  if (slower.size() == rates.size()) return "never";
  std::string text = "open";
  if (!faster.empty() && is_run) {
    text = faster.front() == rates.front() ? "up to " + RateText(faster.back())
           : faster.size() == 1
               ? "only at " + RateText(faster.back())
               : Join("only from ", RateText(faster.front()), " to ", RateText(faster.back()));
  }
  return text + (slower.empty() ? "" : "; slower at " + RatesText(slower));
}

std::vector<Field<OverLinks>> FieldsFor(const Links& links) {
  enum Section { kHeadline = 1, kDetails };
  std::vector<Field<OverLinks>> fields = {
      {{.name = "variant"}, [](const OverLinks& row) { return row.any.row.label; }},
      {{.name = "backend", .said_once = true}, [](const OverLinks& row) { return row.any.row.backend(); }},
      {{.name = "faster than baseline"}, FasterWhere}};
  const auto add = [&](const std::string& place, const std::function<Comparison(const OverLinks&)>& at) {
    const std::string name = Join("delta ", place, " (%)");
    fields.push_back({{.name = name, .kind = Kind::kPercent, .header = name, .section = kHeadline},
                      [at](const OverLinks& row) { return Scaled(at(row).estimate, 100); }});
    fields.push_back({{.name = "verdict " + place, .audience = Audience::kMachines},
                      [at](const OverLinks& row) { return std::string(WordOf(at(row).verdict)); }});
  };
  for (const std::string& backend : links.backends)
    add("over " + backend, [backend](const OverLinks& row) { return At(row.by_backend, backend); });
  for (const double rate : links.rates)
    add("at " + RateText(rate), [rate](const OverLinks& row) { return At(row.by_rate, rate); });
  fields.push_back(
      {{.name = "verified", .section = kDetails}, [](const OverLinks& row) { return row.any.equality(); }});
  fields.push_back(
      {{.name = "baseline", .said_once = true}, [](const OverLinks& row) { return row.any.base()->label; }});
  return fields;
}

// Returns the table, which refers to the settings. It has no rows if there are fewer than two rates.
Links LinksOf(const Settings& settings) {
  Links links;
  std::map<std::string, size_t> numbers;
  const auto rate_of = [](const Comparison& own) { return ConfigNumber(*own.row->measured, "link_rate"); };
  for (const NamedSetting& at : settings) {
    for (const Comparison& own : at.setting->comparisons) {
      const double rate = rate_of(own);
      if (std::isnan(rate) || own.is_of_baseline() || own.row->strategy().empty()) continue;
      const View view{at, *own.row};
      const auto [found, is_new] =
          numbers.emplace(Join(KeyWithoutLink(view.row), view.row.backend()), links.rows.size());
      if (is_new) links.rows.push_back({view});
      links.rows[found->second].by_rate.emplace(rate, view);
      links.rates.insert(rate);
    }
  }
  if (links.rates.size() < 2) return {};
  for (const NamedSetting& at : settings) {
    for (const Comparison& own : at.setting->comparisons) {
      if (own.is_of_baseline() || !std::isnan(rate_of(own))) continue;
      const View view{at, *own.row};
      for (OverLinks& row : links.rows) {
        if (KeyWithoutLink(row.any.row) != KeyWithoutLink(view.row)) continue;
        row.by_backend.emplace(view.row.backend(), view);
        links.backends.insert(view.row.backend());
      }
    }
  }
  return links;
}

// Returns what was measured in each column: "over gloo", "at 1 Gbit/s".
std::vector<MeasuredPlace> PlacesOf(const Links& links) {
  std::vector<MeasuredPlace> places;
  for (const OverLinks& row : links.rows) {
    for (const auto& [backend, view] : row.by_backend)
      places.emplace_back("over " + backend, &view.measured());
    for (const auto& [rate, view] : row.by_rate)
      places.emplace_back("at " + RateText(rate), &view.measured());
  }
  return places;
}

}  // namespace

void AddLinksTables(const Settings& settings, std::vector<Table>* tables) {
  const Links links = LinksOf(settings);
  if (links.rows.empty()) return;
  TableOf<OverLinks> table("links", "Which strategy pays over which link", FieldsFor(links));
  for (const OverLinks& row : links.rows) table.Add(row);
  table.AddNote(
      "faster than baseline: the measured rates of the link, in each direction, at which the interval of the "
      "difference lies below zero; slower: above zero. open: at no rate, or at rates with gaps between them. "
      "over gloo, over shm: without a link, on one host. In brackets: 95 % CI, which hold at once in a run.");
  table.AddNote(MachinesText(PlacesOf(links)));
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
