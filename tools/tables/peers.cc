#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "tools/analysis/answers.h"
#include "tools/analysis/pairs.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// The table that compares gradsync's rows with rows of another framework that took turns with them.
namespace gradsync::tools {
namespace {

// gradsync's row, and the comparable row of the peer.
struct Pair {
  View own;
  View peer;
  Estimate slower{};  // difference of steps, relative to the peer's step
  Estimate dearer{};  // difference of costs, each relative to its own floor, in seconds

  double floors_ratio() const {
    const Row *const floor = own.cost().floor, *const peers = peer.cost().floor;
    return floor == nullptr || peers == nullptr ? kNaN : floor->step_s / peers->step_s;
  }

  // Returns the warnings of both rows, without `drifts` if both have it, and without `outliers`, because
  // trimmed means exclude outliers.
  Warnings warnings() const {
    Warnings warnings = own.row.warnings;
    for (const RowWarning& warning : peer.row.warnings) {
      if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
    }
    std::erase_if(warnings, [](const RowWarning& warning) {
      return warning.kind == Warning::kDrifts || warning.kind == Warning::kOutliers;
    });
    std::ranges::sort(warnings);
    return warnings;
  }
};

// Applies a function or a member to one of the two views.
auto Of(const View Pair::*view, auto value) {
  return [=](const Pair& pair) { return std::invoke(value, pair.*view); };
}
Estimate CostOf(const View& view) { return view.cost().total; }

enum Section { kHeadline = 1, kDetails };

std::vector<Field<Pair>> Fields() {
  std::vector<Field<Pair>> fields = {
      {{.name = "variant"}, Of(&Pair::own, &View::name)},
      {{.name = "peer", .audience = Audience::kPeople},
       [](const Pair& pair) {
         const Row& peer = pair.peer.row;
         return peer.backend() == pair.own.row.backend() ? peer.label : peer.variant();
       }},
      {{.name = "peer", .audience = Audience::kMachines}, Of(&Pair::peer, &View::variant)},
      {{.name = "difference of costs (s)",
        .kind = Kind::kPart,
        .header = "costs differ by (ms)",
        .times = 1e3,
        .digits = 3,
        .section = kHeadline},
       &Pair::dearer},
      {{.name = "ratio_to_pytorch",
        .kind = Kind::kFraction,
        .header = "ratio of steps",
        .section = kHeadline},
       [](const Pair& pair) {
         const Interval& interval = pair.slower.interval;
         return Estimate{1 + pair.slower.value, {1 + interval.low, 1 + interval.high}};
       }},

      {{.name = "sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kDetails},
       Of(&Pair::own, CostOf)},
      {{.name = "peer's sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kDetails},
       Of(&Pair::peer, CostOf)},
      {{.name = "floors' ratio", .kind = Kind::kFraction, .section = kDetails}, &Pair::floors_ratio},
      {{.name = "step (s)", .section = kDetails}, Of(&Pair::own, &View::step_s)},
      {{.name = "peer's step (s)", .section = kDetails}, Of(&Pair::peer, &View::step_s)},
      {{.name = "memory (B/param)", .kind = Kind::kPlain, .section = kDetails},
       Of(&Pair::own, &View::peak_bytes_per_parameter)},
      {{.name = "peer's memory (B/param)", .kind = Kind::kPlain, .section = kDetails},
       Of(&Pair::peer, &View::peak_bytes_per_parameter)},
      {{.name = "memory_ratio_to_pytorch", .kind = Kind::kFraction, .section = kDetails},
       [](const Pair& pair) {
         return pair.own.peak_bytes_per_parameter() / pair.peer.peak_bytes_per_parameter();
       }},
      {{.name = "equals single process", .section = kDetails}, Of(&Pair::own, &View::equality)},
      {{.name = "peer equals single process", .section = kDetails}, Of(&Pair::peer, &View::equality)},
  };
  for (const Field<View>& field : RunFields(kDetails))
    fields.push_back({field.column, Of(&Pair::own, field.value)});
  fields.push_back({{.name = "warnings", .section = kHeadline}, &Pair::warnings});
  return fields;
}

// Returns whether the peer names this row as comparable, over an equal backend if gradsync has rows over the
// peer's backend.
bool AreTwins(const Setting& setting, const Row& own, const Row& peer) {
  const std::string twin = peer.facts().StringOr("twin", "");
  const auto matches = [&](const Row& row) { return !row.is_peer() && row.strategy() == twin; };
  const bool has_backend = std::ranges::any_of(
      setting.rows, [&](const Row& row) { return matches(row) && row.backend() == peer.backend(); });
  return matches(own) && (own.backend() == peer.backend() || !has_backend);
}

// Returns the reason why the pair has no verdict; empty if there is none.
std::string ReasonAgainst(const Pair& pair) {
  return pair.own.row.no_verdict.empty() ? pair.peer.row.no_verdict : pair.own.row.no_verdict;
}

std::string NameOf(const Pair& pair) {
  return Join(pair.own.name(), pair.peer.measured().record.variant.compiled ? " (compiled twin)" : "");
}

// Returns a sentence about steps without synchronisation, which also exist with a single rank.
std::string EnginesOf(const std::vector<Pair>& pairs) {
  std::vector<std::string> ratios;
  for (const Pair& pair : pairs) {
    if (pair.own.row.is_floor() && std::isfinite(pair.slower.value))
      ratios.push_back(absl::StrFormat("%s %.3g", NameOf(pair), 1 + pair.slower.value));
  }
  return ratios.empty() ? "" : Join("Steps, as parts of PyTorch's: ", absl::StrJoin(ratios, ", "), ". ");
}

// Returns sentences about the cost of synchronisation, relative to the floor of each framework, and about
// whole steps, which also compare the engines.
std::string FindingOf(const std::vector<Pair>& pairs) {
  std::vector<Answer> costs, steps;
  for (const Pair& pair : pairs) {
    if (!ReasonAgainst(pair).empty() || pair.own.row.is_floor() || Has(pair.warnings(), Warning::kUnequal))
      continue;
    const std::string row = NameOf(pair);
    const auto add = [&](const Estimate& difference, std::vector<Answer>* answers) {
      const Verdict verdict = JudgeInterval(difference.interval);
      if (verdict != Verdict::kNone)
        answers->push_back(
            {"", row, "PyTorch's twin", verdict, difference,
             verdict == Verdict::kOpen ? OptionsToDecide(*pair.own.at.setting, difference) : ""});
    };
    if (const Row* const floor = pair.peer.cost().floor) add(Scaled(pair.dearer, 1 / floor->step_s), &costs);
    add(pair.slower, &steps);
  }
  if (steps.empty()) {
    const std::string reason = NoVerdict({pairs[0].own.at});
    return reason.empty() ? "" : EnginesOf(pairs) + reason;
  }
  std::vector<std::string> sentences =
      WriteSentences(costs, {.slower = "dearer",
                             .faster = "cheaper",
                             .what = "synchronisation, in per cent of PyTorch's step without it"});
  Append(WriteSentences(steps, {.what = "whole steps"}), &sentences);
  return absl::StrJoin(sentences, " ");
}

}  // namespace

void AddPeersTables(const Settings& settings, std::vector<Table>* tables) {
  std::vector<Pair> pairs;
  for (const NamedSetting& at : settings) {
    const Setting& setting = *at.setting;
    std::vector<Pair> own;
    for (const Row& peer : setting.rows) {
      for (const Row& row : setting.rows) {
        if (peer.is_peer() && AreTwins(setting, row, peer)) own.push_back({{at, row}, {at, peer}});
      }
    }
    RowPairs compared;
    for (const Pair& pair : own) compared.push_back({&pair.own.row, &pair.peer.row});
    const std::vector<Estimate> steps = CompareSteps(setting, compared),
                                costs = CompareCosts(setting, compared);
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].slower = steps[i];
      own[i].dearer = costs[i];
      pairs.push_back(own[i]);
    }
  }
  if (pairs.empty()) return;
  TableOf<Pair> table("peers", "gradsync beside PyTorch", Fields());
  for (const Pair& pair : pairs) table.Add(pair);
  if (std::string finding = FindingOf(pairs); !finding.empty()) table.AddFinding(std::move(finding));
  table.AddNote(
      "costs differ by: what synchronisation costs in gradsync, less what it costs in PyTorch, in the same "
      "rounds. A cost (`--details` shows both) is how much longer a step is than one of the same framework "
      "without synchronisation. ratio of steps: below 1 gradsync is faster. The ratio of `none` compares the "
      "engines alone. In brackets: 95 % CI; all of a column hold at once.");
  table.SetSectionTitle(kDetails,
                        "Costs, steps, memory at the peak of the timed steps, verification, and the run");
  table.AddNote(MachinesText(settings));
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
