#include "tools/render/screen.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"
#include "tools/analysis/answers.h"
#include "tools/analysis/pairs.h"
#include "tools/analysis/words.h"
#include "tools/render/choice_grid.h"
#include "tools/tables/convergence.h"
#include "tools/tables/parts/runs.h"
#include "tools/tables/parts/views.h"

namespace gradsync::tools {
namespace {

constexpr size_t kMostChoices = 6;    // further choices are only counted
constexpr size_t kLeastLearning = 3;  // number of lines: headers, a row, and the number of omitted rows
constexpr size_t kLeastGrid = 6;      // number of lines that the grid receives before findings

// Adds the command that decides the undecided setting that needs the least time; nothing if there is no such
// setting.
void AddUndecided(const std::vector<Choice>& choices, Lines* lines) {
  double least_s = kNaN;
  std::string what, command;
  for (const Choice& choice : choices) {
    if (choice.state != State::kUndecided) continue;
    const Setting& setting = choice.setting();
    const Measurement& any = *choice.base->row->measured;
    const Row* const best = choice.candidates[0]->row;
    for (const Comparison* const open : choice.candidates) {
      const Row* const rival = open->row;
      if (rival == best) continue;
      const Estimate estimate = CompareSteps(setting, {{rival, best}})[0];
      double turns_s = 0;
      for (const Row* const row : {rival, best})
        turns_s += static_cast<double>(row->measured->turn_steps()) * row->step_s;
      const double share = std::min(1.0, turns_s / setting.round_s);
      const double seconds = share * SecondsToDecide(setting, estimate);
      if (!(seconds > 0) || seconds >= least_s || any.record.config.Find("link_rate") != nullptr ||
          any.record.provenance.base_command.empty())
        continue;
      least_s = seconds;
      what = Join(best->label, " from ", rival->label, " (", NameOf(choice), ")");
      const std::string options = OptionsToDecide(setting, estimate, share);
      command = ReproducingCommand(any.record.provenance.base_command);
      for (const bench::ConfigName name :
           std::initializer_list<bench::ConfigName>{"batch_size", "accumulation_steps", "seq_len"}) {
        if (const int64_t value = any.record.config.IntOr(name, 0); value > 0)
          command += Join(" --", name.text(), "=", value);
      }
      command += Join(" --variants=", best->variant(), ",", rival->variant(), " ",
                      options.substr(1, options.size() - 2), " --out=DIR");
    }
  }
  if (command.empty()) return;
  AddText("", Join("To tell ", what, ":"), 2, lines);
  AddText("  ", command, 4, lines, " \\");
}

// Returns "best: core in 7, undecided in 1 of 8".
std::string CountBest(const std::vector<Choice>& choices) {
  std::map<std::string, size_t> counts;
  for (const Choice& choice : choices) {
    if (choice.state == State::kNone) continue;
    const Comparison& first = *choice.candidates[0];
    ++counts[choice.state == State::kEqual       ? "several equal"
             : choice.state == State::kUndecided ? "undecided"
             : first.spans_backends              ? first.row->label
                                                 : first.row->strategy()];
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(Join(name, " in ", count));
  return parts.empty() ? "no verdict" : Join("best: ", absl::StrJoin(parts, ", "), " of ", choices.size());
}

// Returns a text about the CPU time that other programs used, and what to do about it, if an answer is
// missing for this reason, or undecided while half of the rows have the warning; else empty.
std::string DisturbedBy(const std::vector<Choice>& choices) {
  size_t num_rows = 0, num_disturbed = 0;
  double most = 0;
  bool is_undecided = false;
  for (const Choice& choice : choices) {
    is_undecided |= choice.state == State::kUndecided;
    for (const Row& row : choice.setting().rows) {
      ++num_rows;
      if (!Has(row.warnings, Warning::kDisturbed)) continue;
      ++num_disturbed;
      most = std::fmax(most, OthersShare(*row.measured, MainTimes(*row.measured)));
    }
  }
  if (most < kTooDisturbed && !(is_undecided && 2 * num_disturbed >= num_rows)) return "";
  return Join("This machine is disturbed: others used up to ", PercentAtMost(most),
              " of its processors. Stop what else runs, and measure again.");
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

// Returns "oversubscribed 44 of 44 rows".
std::string CountWarnings(const Settings& settings) {
  constexpr Warning kHarmless[] = {Warning::kDrifts, Warning::kOutliers, Warning::kTooFewForP95,
                                   Warning::kTooFewForP99, Warning::kLeftEarly};
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

// Adds settings of learning, in at most `most` lines. Omits settings that would have fewer than
// kLeastLearning lines.
void AddLearning(const Summary& summary, size_t most, Lines* lines) {
  size_t num_left = summary.learning.size();
  for (const LearningSetting& setting : summary.learning) {
    const size_t room = most - lines->size();
    if (room < kLeastLearning) return;
    Grid grid{.rows = {{Join("held-out text, ", RankCount(setting.record().world_size)), "bits per byte",
                        Join("against ", kLossBaseline, " (%)"), "step", "sent (MB)"}}};
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
    for (const Row& row : at.setting->rows) {
      if (std::ranges::count(backends, row.backend()) == 0) backends.push_back(row.backend());
    }
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

std::string RenderScreen(const Summary& summary) {
  // All other parts are computed from these settings.
  const Settings training = SelectTraining(summary.settings);
  Settings collectives;
  std::ranges::copy_if(summary.settings, std::back_inserter(collectives),
                       [](const NamedSetting& at) { return at.setting->any().strategy().empty(); });
  // The settings of the first run, and of other runs while there is room and the baseline is equal.
  std::vector<Choice> shown;
  std::vector<std::vector<Choice>> others;  // by run
  const auto run_of = [](const Choice& choice) { return choice.base->row->measured->record.run_id; };
  for (const Choice& choice : MakeChoices(training)) {
    const auto run = std::ranges::find_if(
        others, [&](const std::vector<Choice>& own) { return run_of(own[0]) == run_of(choice); });
    (run == others.end() ? others.emplace_back() : *run).push_back(choice);
  }
  std::erase_if(others, [&](const std::vector<Choice>& run) {
    const bool fits = shown.empty() || (shown.size() + run.size() < kMostSettings &&
                                        run[0].base->row->label == shown[0].base->row->label);
    if (fits) Append(run, &shown);
    return fits;
  });

  Lines head, tail, last;
  if (const std::string text = DisturbedBy(shown); !text.empty()) AddText("", text, 2, &head);
  if (const std::string reason = NoVerdict(training); !reason.empty()) AddText("", reason, 2, &head);
  size_t width = 0;
  for (const Choice& choice : shown) width = std::max(width, NumCharacters(NameOf(choice)) + 2);
  for (const Choice& choice : shown) {
    const std::string sentence = shown.size() > kMostChoices ? "" : WriteSentence(choice);
    if (!sentence.empty()) AddText(Padded(NameOf(choice), width), sentence, 2, &head);
  }
  if (shown.size() > kMostChoices) AddText("", CountBest(shown), 2, &head);
  AddUndecided(shown, &head);
  if (!head.empty()) head.emplace_back();
  if (!summary.runs.empty()) {
    const bench::Record& run = *summary.runs.front();
    AddText("",
            Join(RankCount(run.world_size), " on ", run.provenance.cpu_count, " x ", run.provenance.cpu_model,
                 ", ", run.config.StringOr("device", ""), ", ", run.config.StringOr("dtype", ""),
                 ". Differences in %, with 95 % intervals",
                 shown.empty() ? "" : "; * may be fastest of the exact rows"),
            2, &head);
  }

  const auto add = [](const std::string& name, const std::string& text, size_t most, Lines* lines) {
    if (!text.empty()) AddText(Padded(name, 12), text, most, lines);
  };
  std::vector<std::string> left_early;
  for (const Choice& choice : shown) {
    std::vector<std::string> names;
    for (const Comparison* const own : choice.left_early) names.push_back(own->row->label);
    if (!names.empty()) left_early.push_back(Join(Listed(names), " (", NameOf(choice), ")"));
  }
  add("left early", absl::StrJoin(left_early, "; "), 4, &tail);
  if (const std::string text = NotCompared(training); !text.empty()) AddText("", text, 2, &tail);
  for (const Table& table : summary.report.tables) {
    if (table.name() == "ddp" || table.is_detail() || table.findings().empty()) continue;
    const bool is_aside = table.name() == "all_reduce" && !training.empty();
    add(table.name(), is_aside ? table.findings()[0] : absl::StrJoin(table.findings(), " "), is_aside ? 1 : 4,
        &tail);
  }
  for (const std::vector<Choice>& choices : others) {
    const std::string model = choices[0].base->row->config().StringOr("model", "");
    add(model.substr(0, model.find(' ')), CountBest(choices), 1, &tail);
  }
  add("checks", ChecksOf(summary.settings), 2, &last);
  add("warnings", CountWarnings(summary.settings), 1, &last);

  Lines lines = std::move(head);
  // The last lines are always printed, because results may be wrong.
  const bool has_rows = !shown.empty() || (training.empty() && !collectives.empty());
  const size_t num_grids = size_t{has_rows} + size_t{!summary.learning.empty()};
  size_t room = kScreenLines - lines.size() - last.size();
  tail.resize(std::min(tail.size(), room - std::min(room, kLeastGrid * num_grids)));
  room -= tail.size();
  Lines learning;
  AddLearning(summary, room / (has_rows ? 2 : 1), &learning);
  room -= learning.size();
  if (!shown.empty()) {
    Grid grid = MakeGrid(shown, 1);
    if (!grid.fits()) grid = MakeGrid(shown, 0);
    grid.AddTo(room, &lines);
  } else if (has_rows) {
    AddCollectives(collectives, room, &lines);
  }
  for (Lines* const part : {&learning, &tail, &last}) Append(std::move(*part), &lines);
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace gradsync::tools
