#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "model/error.h"
#include "tools/tables/all_tables.h"
#include "tools/tables/answers.h"
#include "tools/tables/views.h"
#include "tools/tables/words.h"

// Another framework's rows beside gradsync's, which took turns with them.
namespace gradsync::tools {
namespace {

// gradsync's row, and the peer's that does the same.
struct Pair {
  View own;
  View peer;
  Estimate slower{};  // the difference of steps, as a part of the peer's

  // What is against either.
  Flags flags() const {
    Flags flags = own.row.flags;
    for (const FlagOfRow& flag : peer.row.flags) {
      if (std::ranges::find(flags, flag) == flags.end()) flags.push_back(flag);
    }
    std::ranges::sort(flags);
    return flags;
  }
};

template <class Value>
auto OfOwn(Value value) {
  return [value](const Pair& pair) { return value(pair.own); };
}
template <class Value>
auto OfPeer(Value value) {
  return [value](const Pair& pair) { return value(pair.peer); };
}
Estimate CostOf(const View& view) { return view.row.cost.total; }
double MemoryOf(const View& view) { return PeakBytesPerParameter(view.measured()); }

std::vector<Field<Pair>> Fields() {
  enum Section { kHeadline = 1, kDetails };
  std::vector<Field<Pair>> fields = {
      {{.name = "variant", .kind = Kind::kText, .leads = true},
       [](const Pair& pair) { return pair.own.name(); }},
      {{.name = "peer", .kind = Kind::kText, .leads = true},
       [](const Pair& pair) { return pair.peer.row.variant(); }},
      {{.name = "step (s)", .section = kHeadline}, [](const Pair& pair) { return pair.own.row.step_s; }},
      {{.name = "peer's step (s)", .section = kHeadline},
       [](const Pair& pair) { return pair.peer.row.step_s; }},
      {{.name = "ratio_to_pytorch", .kind = Kind::kFraction, .section = kHeadline},
       [](const Pair& pair) {
         const Interval& interval = pair.slower.interval;
         return Estimate{1 + pair.slower.value, {1 + interval.low, 1 + interval.high}};
       }},
      {{.name = "sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kHeadline}, OfOwn(CostOf)},
      {{.name = "peer's sync_cost (s)", .kind = Kind::kPart, .digits = 3, .section = kHeadline},
       OfPeer(CostOf)},

      {{.name = "memory (B/param)", .kind = Kind::kPlain, .section = kDetails}, OfOwn(MemoryOf)},
      {{.name = "peer's memory (B/param)", .kind = Kind::kPlain, .section = kDetails}, OfPeer(MemoryOf)},
      {{.name = "memory_ratio_to_pytorch", .kind = Kind::kFraction, .section = kDetails},
       [](const Pair& pair) { return MemoryOf(pair.own) / MemoryOf(pair.peer); }},
      {{.name = "equals single process", .kind = Kind::kText, .section = kDetails},
       [](const Pair& pair) { return EqualityOf(pair.own.measured()); }},
      {{.name = "peer equals single process", .kind = Kind::kText, .section = kDetails},
       [](const Pair& pair) { return EqualityOf(pair.peer.measured()); }},
  };
  for (const Field<View>& field : RunFields(kDetails)) fields.push_back({field.column, OfOwn(field.value)});
  fields.push_back({{.name = "flags", .kind = Kind::kText, .section = kHeadline}, &Pair::flags});
  return fields;
}

// Whether the peer says that it does the same, over the same backend if gradsync's rows have it.
bool AreTwins(const Cell& cell, const Row& own, const Row& peer) {
  const std::string twin = peer.facts().StringOr("twin", "");
  const auto matches = [&](const Row& row) { return !row.is_peer() && row.strategy() == twin; };
  const bool has_backend = std::ranges::any_of(
      cell.rows, [&](const Row& row) { return matches(row) && row.backend() == peer.backend(); });
  return matches(own) && (own.backend() == peer.backend() || !has_backend);
}

// Of right rows; floors compare engines.
std::string FindingOf(const std::vector<Pair>& pairs) {
  std::vector<Answer> answers;
  std::vector<std::string> costs;
  for (const Pair& pair : pairs) {
    const std::string reason =
        pair.own.row.no_verdict.empty() ? pair.peer.row.no_verdict : pair.own.row.no_verdict;
    const Verdict verdict = reason.empty() ? VerdictOf(pair.slower.interval) : Verdict::kNone;
    if (verdict == Verdict::kNone || pair.own.row.is_floor() || Has(pair.flags(), Flag::kUnequal)) continue;
    answers.push_back({"", pair.own.name(), pair.peer.row.variant(), verdict, pair.slower.interval,
                       verdict == Verdict::kOpen ? OptionsToDecide(pair.own.cell, pair.slower) : ""});
    const std::string own = CostText(pair.own.row), peer = CostText(pair.peer.row);
    if (!own.empty() && !peer.empty()) costs.push_back(Join(own, ", ", peer, "."));
  }
  if (answers.empty()) return NoVerdict({pairs[0].own.cell});
  std::vector<std::string> sentences = SentencesOf(answers);
  if (answers.size() <= 2) Append(std::move(costs), &sentences);
  return absl::StrJoin(sentences, " ");
}

}  // namespace

void AddPeersTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  std::vector<Pair> pairs;
  for (const Cell& cell : cells) {
    std::vector<Pair> own;
    for (const Row& peer : cell.rows) {
      for (const Row& row : cell.rows) {
        if (peer.is_peer() && AreTwins(cell, row, peer)) own.push_back({{cell, row}, {cell, peer}});
      }
    }
    std::vector<std::pair<const Row*, const Row*>> compared;
    for (const Pair& pair : own) compared.emplace_back(&pair.own.row, &pair.peer.row);
    const std::vector<Estimate> estimates = CompareSteps(cell, compared);
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].slower = estimates[i];
      pairs.push_back(own[i]);
    }
  }
  if (pairs.empty()) return;
  TableOf<Pair> table("peers", "gradsync beside PyTorch", Fields());
  for (const Pair& pair : pairs) table.Add(pair);
  if (std::string finding = FindingOf(pairs); !finding.empty()) table.AddFinding(std::move(finding));
  table.AddNote(
      "ratio_to_pytorch: of steps that took turns in one run, with a simultaneous 95 % CI; below 1 gradsync "
      "is faster. "
      "Each sync_cost is over the floor of its own framework: what a step takes longer than the same step "
      "without "
      "synchronisation.");
  table.SetSectionTitle(2, "Memory at the peak of the timed steps, verification, and the run");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
