#include "tools/render/screen.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/render/grid.h"
#include "tools/tables/answers.h"
#include "tools/tables/convergence.h"
#include "tools/tables/pairs.h"
#include "tools/tables/runs.h"
#include "tools/tables/views.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMostChoices = 6;    // more are counted
constexpr size_t kLeastLearning = 3;  // lines: headers, a row and what is not shown
constexpr size_t kLeastGrid = 6;      // lines for which findings give way

// The command that would tell best rows from their rivals where that is soonest; empty if all are told apart.
void AddUndecided(const std::vector<Choice>& choices, Lines* lines) {
  size_t num_undecided = 0;
  double least_s = kNaN;
  std::string what, command;
  for (const Choice& choice : choices) {
    num_undecided += !choice.rivals.empty();
    const Setting& setting = choice.setting();
    const Measurement& any = *choice.base->row->measured;
    for (const Comparison* const open : choice.rivals) {
      const Row *const rival = open->row, *const best = choice.best->row;
      const Estimate estimate = CompareSteps(setting, {{rival, best}})[0];
      double turns_s = 0;
      for (const Row* const row : {rival, best})
        turns_s += static_cast<double>(row->measured->turn_steps()) * row->step_s;
      const double share = std::min(1.0, turns_s / setting.round_s);
      const double seconds = share * SecondsToDecide(setting, estimate);
      if (!(seconds > 0) || seconds >= least_s || any.record.config.Find("link_rate") != nullptr) continue;
      least_s = seconds;
      what = Join(best->label, " from ", rival->label, " (", NameOf(choice), ")");
      const std::string options = OptionsToDecide(setting, estimate, share);
      command =
          CommandWithout(any.record.provenance.command_line,
                         {"variants", "strategies", "backend", "bucket_bytes", "buffer_elements", "units",
                          "with_peers", "peer_modes", "peer_python", "batch_size", "accumulation_steps",
                          "seq_len", "time", "steps", "repeats", "precision", "out", "answer"});
      for (const bench::ConfigName name :
           std::initializer_list<bench::ConfigName>{"batch_size", "accumulation_steps", "seq_len"}) {
        if (const int64_t value = any.record.config.IntOr(name, 0); value > 0)
          command += Join(" --", name.text(), "=", value);
      }
      command += Join(" --variants=", best->variant(), ",", rival->variant(), " ",
                      options.substr(1, options.size() - 2), " --out=DIR");
    }
  }
  if (num_undecided == 0) return;
  const std::string head = Join("Undecided in ", num_undecided, " of ", choices.size(), " settings.");
  std::string line = command.empty() ? head : Join(head, " This tells ", what, ":");
  // The command names both rows too.
  if (NumCharacters(line) > kScreenColumns) line = head + " This tells two rows apart:";
  lines->push_back(line);
  if (!command.empty()) AddText("  ", command, 4, lines, " \\");
}

// "best: core in 8 of 8; 8 slower; core costs 15 to 41 % (gloo) of a step".
std::string BestOf(const std::vector<Choice>& choices) {
  std::map<std::string, size_t> counts;
  std::map<std::string, Interval> costs;  // of the baseline, by backend
  std::vector<Answer> answers;
  for (const Choice& choice : choices) {
    if (choice.best != nullptr)
      ++counts[choice.best->spans_backends ? choice.best->row->label : choice.best->row->strategy()];
    for (const Comparison* const own : choice.comparisons()) {
      if (own != choice.base) answers.push_back(AnswerOf("", choice.setting(), *own));
    }
    const Row& base = *choice.base->row;
    const Cost cost = choice.setting().CostOf(base);
    if (cost.row == nullptr || !cost.told().interval.is_known()) continue;
    Interval& all = costs[base.backend()];
    all = all.With(Scaled(cost.told(), 1 / base.step_s).interval);
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(Join(name, " in ", count));
  std::string text = parts.empty() ? "no verdict" : Join("best: ", Listed(parts), " of ", choices.size());
  if (const std::string others = CountsOf(answers); !others.empty()) text += "; " + others;
  parts.clear();
  for (const auto& [backend, cost] : costs) parts.push_back(Join(PercentRange(cost), " (", backend, ")"));
  return parts.empty() ? text
                       : Join(text, "; ", choices[0].base->row->strategy(), " costs ",
                              absl::StrJoin(parts, ", "), " of a step");
}

std::string ChecksOf(const Settings& settings) {
  size_t num_rows = 0, num_equal = 0, num_checked = 0, num_sums = 0;
  std::vector<std::string> wrong;
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) {
      const bool is_sum = row.measured->wrong_elements.has_value();
      num_sums += is_sum;
      num_rows += !is_sum && !row.is_floor();
      num_equal += !is_sum && !row.is_floor() && row.measured->equal().value_or(false);
      num_checked += !is_sum && !row.is_floor() && row.measured->equal().has_value();
      if (!row.is_right())
        wrong.push_back(Join(is_sum ? row.backend() : row.variant(), " (", NameOf(at), ")"));
    }
  }
  std::vector<std::string> parts;
  if (!wrong.empty()) parts.push_back("WRONG: " + Listed(wrong));
  if (num_rows > 0)
    parts.push_back(
        Join(num_equal, " of ", num_rows, " rows equal a single process, or their own equation",
             num_checked < num_rows ? Join(", ", num_rows - num_checked, " were not checked") : ""));
  if (num_sums > 0 && wrong.empty()) parts.emplace_back("every sum is right");
  return absl::StrJoin(parts, "; ");
}

// "oversubscribed 44 of 44 rows".
std::string CountWarnings(const Settings& settings) {
  constexpr Warning kHarmless[] = {Warning::kDrifts, Warning::kOutliers, Warning::kTooFewForP95,
                                   Warning::kTooFewForP99};
  std::map<Warning, size_t> counts;
  size_t num_rows = 0;
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) {
      ++num_rows;
      for (const RowWarning& warning : row.warnings)
        counts[warning.kind] += std::ranges::count(kHarmless, warning.kind) == 0;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [warning, count] : counts) {
    if (count > 0) parts.push_back(Join(WordOf(warning), " ", count));
  }
  return parts.empty() ? "" : Join(absl::StrJoin(parts, ", "), " of ", num_rows, " rows");
}

template <class T>
using Groups = std::vector<std::pair<std::string, T>>;  // in the order in which they were begun

template <class T>
T& GroupOf(const std::string& name, Groups<T>* groups) {
  const auto group = std::ranges::find(*groups, name, &std::pair<std::string, T>::first);
  return group == groups->end() ? groups->emplace_back(name, T()).second : group->second;
}

void AddOnce(const std::string& text, std::vector<std::string>* all) {
  if (std::ranges::count(*all, text) == 0) all->push_back(text);
}

// "37.3 (zero1@shm, zero2@shm 18.6)": what the baselines of a model send, and rows that send another amount.
std::string AmountsOf(const std::vector<Choice>& choices) {
  std::vector<std::string> amounts, differing;
  Groups<std::vector<std::string>> others;  // names by amount
  for (const Choice& choice : choices) {
    const std::string base = SentIn(choice.base->row);
    AddOnce(base, &amounts);
    for (const Comparison* const own : choice.comparisons()) {
      const Row& row = *own->row;
      const std::string amount = SentIn(&row);
      if (amount == base) continue;
      const bool is_everywhere = std::ranges::all_of(choices, [&](const Choice& other) {
        const Comparison* const same = other.Find(row.label);
        return other.at.setting != choice.at.setting ||
               SentIn(same == nullptr ? nullptr : same->row) == amount;
      });
      AddOnce(is_everywhere ? row.label : row.variant(), &GroupOf(amount, &others));
    }
  }
  for (const auto& [amount, names] : others)
    differing.push_back(Join(absl::StrJoin(names, ", "), " ", amount));
  return Join(Listed(amounts), differing.empty() ? "" : Join(" (", absl::StrJoin(differing, "; "), ")"));
}

// "MB a step: tiny 37.3 (zero1@shm, zero2@shm 18.6), small 515".
std::string BytesOf(const std::vector<Choice>& choices) {
  Groups<std::vector<Choice>> models;
  for (const Choice& choice : choices)
    GroupOf(choice.setting().any().config().StringOr("model", ""), &models).push_back(choice);
  std::vector<std::string> parts;
  for (const auto& [model, own] : models) parts.push_back(Join(model, " ", AmountsOf(own)));
  return Join("MB a step: ", absl::StrJoin(parts, ", "));
}

// In at most so many lines; settings that would have fewer than kLeastLearning are left out.
void AddLearning(const Summary& summary, size_t most, Lines* lines) {
  size_t num_left = summary.learning.size();
  for (const LearningSetting& setting : summary.learning) {
    const size_t room = most - lines->size();
    if (room < kLeastLearning) return;
    Grid grid{.rows = {{Join("held-out text, ", RankCount(setting.record().world_size)), "bits per byte",
                        "against naive (%)", "step", "sent (MB)"}}};
    for (const LearningRow& row : setting.rows)
      grid.rows.push_back({row.variant(), Fixed(row.final_bits.value, 4),
                           DifferenceText(row.against_baseline), TimeText(row.step_s),
                           Significant(1e-6 * row.bytes_per_step, 3)});
    grid.AddTo(std::max(room / num_left--, kLeastLearning), lines);
  }
}

void AddCollectives(const Settings& settings, size_t most, Lines* lines) {
  std::vector<std::string> backends;
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) AddOnce(row.backend(), &backends);
  }
  Grid grid{.rows = {{""}}};
  for (const std::string& backend : backends) grid.rows[0].push_back(Join(backend, ": time, GB/s"));
  for (const NamedSetting& at : settings) {
    const bench::ConfigFields& config = at.setting->any().config();
    std::vector<std::string>& line = grid.rows.emplace_back(std::vector<std::string>{
        Join(config.StringOr("collective", "all_reduce"), " of ", SizeText(config.IntOr("size_bytes", 0)))});

    line.resize(1 + backends.size());
    for (const Row& row : at.setting->rows)
      line[1 + static_cast<size_t>(std::ranges::find(backends, row.backend()) - backends.begin())] =
          Join(TimeText(row.step_s), ", ", Significant(row.bus_bytes_per_second / 1e9, 3));
  }
  grid.AddTo(std::min(most, kScreenLines / 2), lines);
}

}  // namespace

std::string ScreenOf(const Summary& summary) {
  // Others follow from these.
  const Settings training = TrainingOf(summary.settings);
  Settings collectives;
  std::ranges::copy_if(summary.settings, std::back_inserter(collectives),
                       [](const NamedSetting& at) { return at.setting->any().strategy().empty(); });
  // The settings of the first run, and of others as long as there is room and they have the same baseline.
  std::vector<Choice> shown;
  Groups<std::vector<Choice>> others;
  for (const Choice& choice : ChoicesOf(training))
    GroupOf(choice.base->row->measured->record.run_id, &others).push_back(choice);
  std::erase_if(others, [&](const auto& run) {
    const bool fits = shown.empty() || (shown.size() + run.second.size() < kMostSettings &&
                                        run.second[0].base->row->label == shown[0].base->row->label);
    if (fits) Append(run.second, &shown);
    return fits;
  });

  Lines head, tail, last;
  if (!summary.runs.empty()) {
    const bench::Record& run = *summary.runs.front();
    head.push_back(Shortened(Join(RankCount(run.world_size), " on ", run.provenance.cpu_count, " x ",
                                  run.provenance.cpu_model, ", ", run.config.StringOr("device", ""), ", ",
                                  run.config.StringOr("dtype", ""), ". Differences in %, with 95 % intervals",
                                  shown.empty() ? "" : "; * may be fastest of the exact rows"),
                             kScreenColumns));
  }
  for (size_t i = 0; i < std::min(shown.size(), kMostChoices); ++i) {
    if (shown[i].best == nullptr) continue;
    AddText("",
            Join("Use ", shown[i].best->row->label, " for ", NameOf(shown[i]), ": ", SentenceOf(shown[i])), 2,
            &head);
  }
  if (shown.size() > kMostChoices) AddText("", BestOf(shown), 2, &head);
  std::string reason = NoVerdict(training);
  for (const Choice& choice : shown) {
    const std::vector<const Comparison*> all = choice.comparisons();
    const auto other =
        std::ranges::find_if(all, [](const Comparison* own) { return !own->no_verdict.empty(); });
    if (!reason.empty() || choice.best != nullptr || other == all.end()) continue;
    const Comparison& own = choice.base->no_verdict.empty() ? **other : *choice.base;
    reason = Join("No verdict for ", NameOf(choice), ": ", own.row->label, " ", own.no_verdict);
  }
  if (!reason.empty()) AddText("", reason, 2, &head);
  AddUndecided(shown, &head);

  const auto add = [](const std::string& name, const std::string& text, size_t most, Lines* lines) {
    if (!text.empty()) AddText(Padded(name, 12), text, most, lines);
  };
  if (const std::string text = NotCompared(training); !text.empty()) AddText("", text, 2, &tail);
  if (shown.size() > 1) add("sent", BytesOf(shown), 1, &tail);
  for (const Table& table : summary.report.tables) {
    if (table.name() == "ddp" || table.is_detail() || table.findings().empty()) continue;
    const bool is_aside = table.name() == "all_reduce" && !training.empty();
    add(table.name(), is_aside ? table.findings()[0] : absl::StrJoin(table.findings(), " "), is_aside ? 1 : 4,
        &tail);
  }
  for (const auto& [run, choices] : others) {
    const std::string model = choices[0].base->row->config().StringOr("model", "");
    add(model.substr(0, model.find(' ')), BestOf(choices), 1, &tail);
  }
  add("checks", ChecksOf(summary.settings), 2, &last);
  add("warnings", CountWarnings(summary.settings), 1, &last);

  Lines lines = std::move(head);
  lines.emplace_back();
  // Whatever the room, the last lines stay: results may be wrong.
  const bool has_rows = !shown.empty() || (training.empty() && !collectives.empty());
  const size_t num_grids = size_t{has_rows} + size_t{!summary.learning.empty()};
  size_t room = kScreenLines - lines.size() - last.size();
  tail.resize(std::min(tail.size(), room - std::min(room, kLeastGrid * num_grids)));
  room -= tail.size();
  Lines learning;
  AddLearning(summary, room / (has_rows ? 2 : 1), &learning);
  room -= learning.size();
  if (!shown.empty()) {
    Grid grid = GridOf(shown, 1);
    if (!grid.fits()) grid = GridOf(shown, 0);
    grid.AddTo(room, &lines);
  } else if (has_rows) {
    AddCollectives(collectives, room, &lines);
  }
  for (Lines* const part : {&learning, &tail, &last}) Append(std::move(*part), &lines);
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace gradsync::tools
