#include "tools/render/screen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "bench/records/units.h"
#include "model/error.h"
#include "tools/render/text.h"
#include "tools/tables/answers.h"
#include "tools/tables/convergence.h"
#include "tools/tables/runs.h"
#include "tools/tables/views.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kMostChoices = 6;   // more are counted
constexpr size_t kMostSettings = 5;  // of more, settings are lines and not columns
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostLabel = 34;  // characters of a row's name

std::string Padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, NumCharacters(text)), ' ');
}

// `text` behind `head`, broken at spaces, with `end` where it goes on; what does not fit into `most` lines is
// cut.
void AddText(const std::string& head, const std::string& text, size_t most, Lines* lines,
             const char* end = "") {
  const std::string indent(NumCharacters(head), ' ');
  const size_t begin = lines->size();
  std::string line = head;
  bool is_first = true;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ' '))) {
    if (!is_first && NumCharacters(line) + 1 + NumCharacters(word) > kScreenColumns - 2) {
      if (lines->size() - begin + 1 == most) {
        line += " …";
        break;
      }
      lines->push_back(line + end);
      line = indent;
      is_first = true;
    }
    line += is_first ? word : " " + word;
    is_first = false;
  }
  lines->push_back(Shortened(line, kScreenColumns));
}

// A table whose first column holds names. Columns that do not fit are left out.
struct Grid {
  std::vector<std::string> over{};  // each stands above its column and those behind it that have none
  std::vector<std::vector<std::string>> rows{};  // the first holds the headers

  size_t num_last = 0;  // rows at the end that stay

  size_t WidthOf(size_t column) const {
    size_t width = 0;
    for (const auto& row : rows) width = std::max(width, NumCharacters(row[column]));
    return width;
  }
  bool fits() const {
    size_t width = std::min(WidthOf(0), kMostLabel);
    for (size_t i = 1; i < rows[0].size(); ++i) width += 2 + WidthOf(i);
    return width <= kScreenColumns;
  }

  // At most so many lines: of the others those that come last are only named.
  void AddTo(size_t most, Lines* lines) const {
    size_t label_width = kScreenColumns;
    for (size_t i = 1; i < rows[0].size(); ++i) label_width -= std::min(label_width, WidthOf(i) + 2);
    label_width = std::max(label_width, kMostLabel);
    std::vector<size_t> begins = {0};
    for (size_t i = 0; i < rows[0].size(); ++i) {
      const size_t end = begins.back() + std::min(WidthOf(i), i == 0 ? label_width : kMostLabel) + 2;
      if (end > kScreenColumns + 2) break;
      begins.push_back(end);
    }
    const size_t num_columns = begins.size() - 1;
    std::string above;
    for (size_t i = 0; i < std::min(num_columns, over.size()); ++i) {
      if (over[i].empty()) continue;
      size_t last = i;
      while (last + 1 < num_columns && over[last + 1].empty()) ++last;
      above = Padded(above, begins[i]) + Shortened(over[i], begins[last + 1] - begins[i] - 2);
    }
    if (!over.empty()) lines->push_back(above);
    const size_t room = most - (over.empty() ? 0 : 1), first_last = rows.size() - num_last;
    const size_t shown = rows.size() <= room ? first_last : room - num_last - 1;
    std::vector<std::string> names;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (row >= shown && row < first_last) {
        names.push_back(rows[row][0]);
        if (row + 1 == first_last) AddText("and ", absl::StrJoin(names, ", "), 1, lines);
        continue;
      }
      std::string line;
      for (size_t i = 0; i < num_columns; ++i)
        line = Padded(line, begins[i]) + Shortened(rows[row][i], begins[i + 1] - begins[i] - 2);
      lines->push_back(line);
    }
  }
};

// "+29.2 [15.4, 42.9]".
std::string PercentText(const Estimate& estimate, int decimals = 1) {
  if (std::isnan(estimate.value)) return "";
  const auto fixed = [&](double part) { return Fixed(100 * part, decimals); };
  const std::string value = fixed(estimate.value);
  const bool is_more = value.find_first_of("123456789") != std::string::npos && value[0] != '-';
  const auto [low, high] = estimate.interval;
  return Join(is_more ? "+" : "", value,
              estimate.interval.is_known() ? Join(" [", fixed(low), ", ", fixed(high), "]") : "");
}

const Row* RowOf(const Choice& choice, const std::string& label) {
  const auto index = static_cast<size_t>(choice.base - choice.cell->rows.data());
  for (const Row& row : choice.cell->rows) {
    if (row.baseline == index && row.label() == label) return &row;
  }
  return nullptr;
}

const Row* FloorOf(const Choice& choice) {
  return choice.base->floor == Row::kNone ? nullptr : &choice.cell->rows[choice.base->floor];
}

// Its difference, or the baseline's step; an asterisk behind what may be fastest.
std::string TextIn(const Choice& choice, const std::string& label, int decimals = 1) {
  const Row* const row = RowOf(choice, label);
  if (row == nullptr) return "";
  const std::string text =
      row == choice.base ? TimeText(row->step_s) : PercentText(row->against_baseline, decimals);
  const bool may_win = row == choice.best || std::ranges::count(choice.rivals, row) > 0;
  return text + (may_win ? " *" : "");
}

std::string CostIn(const Row* row) {
  return row == nullptr || !row->cost.total.interval.is_known() ? "" : TimeRange(row->cost.total.interval);
}

std::string SentIn(const Row* row) {
  const double bytes = row == nullptr ? kNaN : row->facts().DoubleOr("sent_bytes_per_step", kNaN);
  return std::isnan(bytes) ? "" : Significant(1e-6 * bytes, 3);
}

// What a setting is called where there is but one: "tiny, batch 2, sequence 64".
std::string NameOf(const Cell& cell) {
  if (!cell.name.empty()) return cell.name;
  const bench::ConfigFields& config = cell.any().config();
  std::string name = config.StringOr("model", "");
  const auto add = [&](const char* word, bench::ConfigName field) {
    if (const int64_t value = config.IntOr(field, 0); value > 0) name += Join(word, value);
  };
  add(", batch ", "batch_size");
  add(", sequence ", "seq_len");
  add(", images of ", "image_size");
  return name;
}

std::string NameOf(const Choice& choice) {
  return Join(absl::StrReplaceAll(NameOf(*choice.cell), {{", batch ", " b"}, {", sequence ", " s"}}),
              " over ", choice.base->backend());
}

// The rows of all choices: first the baseline, then by their mean difference.
std::vector<std::string> LabelsOf(const std::vector<Choice>& choices) {
  std::vector<std::pair<double, std::string>> labels;
  for (const Choice& choice : choices) {
    for (const Row& row : choice.cell->rows) {
      const std::string label = row.label();
      if (RowOf(choice, label) != &row ||
          std::ranges::count(labels, label, &std::pair<double, std::string>::second) > 0)
        continue;
      std::vector<double> deltas;
      for (const Choice& other : choices) {
        if (const Row* const same = RowOf(other, label))
          deltas.push_back(same == other.base ? 0 : same->against_baseline.value);
      }
      labels.emplace_back(&row == choice.base ? -kInfinity : Mean(deltas), label);
    }
  }
  std::ranges::stable_sort(labels, {}, &std::pair<double, std::string>::first);
  std::vector<std::string> sorted;
  for (auto& [delta, label] : labels) sorted.push_back(std::move(label));
  return sorted;
}

// One setting has a column for each number of a row; several have a column each; many a line each.
Grid GridOf(const std::vector<Choice>& choices, int decimals) {
  const std::vector<std::string> labels = LabelsOf(choices);
  Grid grid;
  if (choices.size() == 1) {
    const Choice& choice = choices[0];
    grid.over = {NameOf(choice), "", "", "", ""};
    grid.rows = {{"", "step", "difference (%)", "cost", "sent (MB)"}};
    for (const std::string& label : labels) {
      const Row* const row = RowOf(choice, label);
      const bool is_base = row == choice.base;
      grid.rows.push_back({label, TimeText(row->step_s), is_base ? "baseline" : TextIn(choice, label),
                           CostIn(row), SentIn(row)});
    }
    if (const Row* const floor = FloorOf(choice)) {
      grid.rows.push_back({floor->label(), TimeText(floor->step_s), "", "floor", SentIn(floor)});
      grid.num_last = 1;
    }
    return grid;
  }
  const bool in_lines = choices.size() > kMostSettings;
  std::vector<std::vector<std::string>> columns = {{""}};
  Append(labels, &columns[0]);
  Append({"floor", "baseline's cost", "best row's step", "best row's cost"}, &columns[0]);
  const Cell* last = nullptr;
  for (const Choice& choice : choices) {
    std::vector<std::string>& column = columns.emplace_back();
    grid.over.resize(columns.size());
    if (choice.cell != last) grid.over.back() = NameOf(*choice.cell);
    last = choice.cell;
    column.push_back(in_lines ? NameOf(choice) : choice.base->backend());
    for (const std::string& label : labels) column.push_back(TextIn(choice, label, decimals));
    const Row* const floor = FloorOf(choice);
    column.push_back(floor == nullptr ? "" : TimeText(floor->step_s));
    column.push_back(CostIn(choice.base));
    column.push_back(choice.best == nullptr ? "" : TimeText(choice.best->step_s));
    column.push_back(CostIn(choice.best));
  }
  if (in_lines) {
    grid.over.clear();
    grid.rows = std::move(columns);
    return grid;
  }
  for (size_t i = 0; i < columns[0].size(); ++i) {
    std::vector<std::string>& row = grid.rows.emplace_back();
    for (const auto& column : columns) row.push_back(column[i]);
    const bool is_empty =
        std::all_of(row.begin() + 1, row.end(), [](const std::string& text) { return text.empty(); });
    if (is_empty) grid.rows.pop_back();
    if (!is_empty && i > labels.size()) ++grid.num_last;
  }
  return grid;
}

// The command that would tell best rows from their rivals where that is soonest; empty if all are told apart.
void AddUndecided(const std::vector<Choice>& choices, Lines* lines) {
  size_t num_undecided = 0;
  double least_s = kNaN;
  std::string what, command;
  for (const Choice& choice : choices) {
    num_undecided += !choice.rivals.empty();
    const Measurement& any = *choice.base->measured;
    for (const Row* const rival : choice.rivals) {
      const Estimate estimate = CompareSteps(*choice.cell, {{rival, choice.best}})[0];
      const double share = std::min(1.0, (rival->step_s + choice.best->step_s) / choice.cell->round_s);
      const double seconds = share * SecondsToDecide(*choice.cell, estimate);
      if (!(seconds > 0) || seconds >= least_s || any.record.config.Find("link_rate") != nullptr) continue;
      least_s = seconds;
      what = Join(choice.best->label(), " from ", rival->label(), " (", NameOf(choice), ")");
      const std::string options = OptionsToDecide(*choice.cell, estimate, share);
      command = Join(CommandWithout(any.record.provenance.command_line,
                                    {"variants", "strategies", "backend", "batch_size", "seq_len", "time",
                                     "steps", "repeats", "precision", "out", "answer"}));
      for (const bench::ConfigName name : std::initializer_list<bench::ConfigName>{"batch_size", "seq_len"}) {
        if (const int64_t value = any.record.config.IntOr(name, 0); value > 0)
          command += Join(" --", name.text(), "=", value);
      }
      command += Join(" --variants=", choice.best->variant(), ",", rival->variant(), " ",
                      options.substr(1, options.size() - 2), " --out=DIR");
    }
  }
  if (num_undecided == 0) return;
  AddText("",
          Join("Undecided in ", num_undecided, " of ", choices.size(), " settings.",
               command.empty() ? "" : Join(" This tells ", what, ":")),
          2, lines);
  if (!command.empty()) AddText("  ", command, 4, lines, " \\");
}

// "best: core in 8 of 8; 8 slower; core costs 15 to 41 % (gloo) of a step".
std::string BestOf(const std::vector<Choice>& choices) {
  std::map<std::string, size_t> counts;
  std::map<std::string, Interval> costs;  // of the baseline, by backend
  std::vector<Answer> answers;
  for (const Choice& choice : choices) {
    if (choice.best != nullptr) ++counts[choice.best->strategy()];
    for (const Row& row : choice.cell->rows) {
      if (&row != choice.base && RowOf(choice, row.label()) == &row)
        answers.push_back(AnswerOf(*choice.cell, row));
    }
    const Interval cost = Scaled(choice.base->cost.total, 1 / choice.base->step_s).interval;
    if (!cost.is_known()) continue;
    Interval& all = costs.emplace(choice.base->backend(), cost).first->second;
    all = {std::min(all.low, cost.low), std::max(all.high, cost.high)};
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(Join(name, " in ", count));
  std::string text = parts.empty() ? "no verdict" : Join("best: ", Listed(parts), " of ", choices.size());
  if (const std::string others = CountsOf(answers); !others.empty()) text += "; " + others;
  parts.clear();
  for (const auto& [backend, cost] : costs) parts.push_back(Join(PercentRange(cost), " (", backend, ")"));
  return parts.empty() ? text
                       : Join(text, "; ", choices[0].base->strategy(), " costs ", absl::StrJoin(parts, ", "),
                              " of a step");
}

std::string ChecksOf(const std::vector<Cell>& cells) {
  size_t num_rows = 0, num_equal = 0, num_checked = 0, num_sums = 0;
  std::vector<std::string> wrong;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      const bool is_sum = row.measured->wrong_elements.has_value();
      num_sums += is_sum;
      num_rows += !is_sum && !row.is_floor();
      num_equal += !is_sum && !row.is_floor() && row.measured->equal().value_or(false);
      num_checked += !is_sum && !row.is_floor() && row.measured->equal().has_value();
      if (Has(row.flags, Flag::kUnequal) || Has(row.flags, Flag::kWrong))
        wrong.push_back(Join(is_sum ? row.backend() : row.variant(), " (", NameOf(cell), ")"));
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
std::string FlagsOf(const std::vector<Cell>& cells) {
  constexpr Flag kHarmless[] = {Flag::kDrifts, Flag::kOutliers, Flag::kTooFewForP95, Flag::kTooFewForP99};
  std::map<Flag, size_t> counts;
  size_t num_rows = 0;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      ++num_rows;
      for (const FlagOfRow& flag : row.flags)
        counts[flag.flag] += std::ranges::count(kHarmless, flag.flag) == 0;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [flag, count] : counts) {
    if (count > 0) parts.push_back(Join(WordOf(flag), " ", count));
  }
  return parts.empty() ? "" : Join(absl::StrJoin(parts, ", "), " of ", num_rows, " rows");
}

// "37.3 MB a rank and step; zero1@shm 18.6": what baselines send, and rows that send another amount.
std::string BytesOf(const std::vector<Choice>& choices) {
  std::vector<std::string> amounts, others;
  const auto add = [](std::string text, std::vector<std::string>* all) {
    if (std::ranges::count(*all, text) == 0) all->push_back(std::move(text));
  };
  for (const Choice& choice : choices) {
    add(SentIn(choice.base), &amounts);
    for (const Row& row : choice.cell->rows) {
      if (RowOf(choice, row.label()) != &row || SentIn(&row) == SentIn(choice.base)) continue;
      const bool is_everywhere = std::ranges::all_of(choices, [&](const Choice& other) {
        return other.cell != choice.cell || SentIn(RowOf(other, row.label())) == SentIn(&row);
      });
      add(Join(is_everywhere ? row.label() : row.variant(), " ", SentIn(&row)), &others);
    }
  }
  return Join(Listed(amounts), " MB a rank and step", others.empty() ? "" : "; ",
              absl::StrJoin(others, ", "));
}

void AddLearning(const Summary& summary, Lines* lines) {
  for (const LearningCell& cell : summary.learning) {
    Grid grid{.rows = {{Join("held-out text, ", RankCount(cell.record().world_size)), "bits per byte",
                        "against naive (%)", "step", "sent (MB)"}}};
    for (const LearningRow& row : cell.rows)
      grid.rows.push_back({row.variant(), Fixed(row.final_bits.value, 4), PercentText(row.against_baseline),
                           TimeText(row.step_s), Significant(1e-6 * row.bytes_per_step, 3)});
    grid.AddTo(kScreenLines / summary.learning.size() - 4, lines);
  }
}

void AddCollectives(const std::vector<Cell>& cells, Lines* lines) {
  std::vector<std::string> backends;
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows) {
      if (std::ranges::count(backends, row.backend()) == 0) backends.push_back(row.backend());
    }
  }
  Grid grid{.rows = {{""}}};
  for (const std::string& backend : backends) grid.rows[0].push_back(Join(backend, ": time, GB/s"));
  for (const Cell& cell : cells) {
    const bench::ConfigFields& config = cell.any().config();
    std::vector<std::string>& line = grid.rows.emplace_back(
        std::vector<std::string>{Join(config.StringOr("collective", "all_reduce"), " of ",
                                      bench::FormatByteCount(config.IntOr("size_bytes", 0)))});

    line.resize(1 + backends.size());
    for (const Row& row : cell.rows)
      line[1 + static_cast<size_t>(std::ranges::find(backends, row.backend()) - backends.begin())] =
          Join(TimeText(row.step_s), ", ", Significant(row.bus_bytes_per_second / 1e9, 3));
  }
  grid.AddTo(kScreenLines / 2, lines);
}

}  // namespace

std::string ScreenOf(const Summary& summary) {
  // Others follow from these.
  const std::vector<Cell> training = TrainingOf(summary.cells);
  std::vector<Cell> collectives;
  std::ranges::copy_if(summary.cells, std::back_inserter(collectives),
                       [](const Cell& cell) { return cell.any().strategy().empty(); });
  // The settings of the first run, and of others as long as there is room and they have the same baseline.
  std::vector<Choice> shown;
  std::vector<std::pair<std::string, std::vector<Choice>>> others;
  for (const Choice& choice : ChoicesOf(training)) {
    const std::string& run = choice.base->measured->record.run_id;
    if (others.empty() || others.back().first != run) others.emplace_back(run, std::vector<Choice>());
    others.back().second.push_back(choice);
  }
  std::erase_if(others, [&](const auto& run) {
    const bool fits = shown.empty() || (shown.size() + run.second.size() < kMostSettings &&
                                        run.second[0].base->label() == shown[0].base->label());
    if (fits) Append(run.second, &shown);
    return fits;
  });

  Lines head, tail;
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
    AddText("", Join("Use ", shown[i].best->label(), " for ", NameOf(shown[i]), ": ", SentenceOf(shown[i])),
            2, &head);
  }
  if (shown.size() > kMostChoices) AddText("", BestOf(shown), 2, &head);
  std::string reason = NoVerdict(training);
  for (const Choice& choice : shown) {
    if (reason.empty() && choice.best == nullptr && !choice.base->no_verdict.empty())
      reason = Join("No verdict for ", NameOf(choice), ": ", choice.base->no_verdict);
  }
  if (!reason.empty()) AddText("", reason, 2, &head);
  AddUndecided(shown, &head);

  const auto add = [&](const std::string& name, const std::string& text, size_t most) {
    if (!text.empty()) AddText(Padded(name, 12), text, most, &tail);
  };
  if (shown.size() > 1) add("sent", BytesOf(shown), 1);
  for (const Table& table : summary.report.tables) {
    if (table.name() == "ddp" || table.is_detail() || table.findings().empty()) continue;
    const bool is_aside = table.name() == "all_reduce" && !training.empty();
    add(table.name(), is_aside ? table.findings()[0] : absl::StrJoin(table.findings(), " "),
        is_aside ? 1 : 4);
  }
  for (const auto& [run, choices] : others) {
    const std::string model = choices[0].base->config().StringOr("model", "");
    add(model.substr(0, model.find(' ')), BestOf(choices), 1);
  }
  add("checks", ChecksOf(summary.cells), 2);
  add("flags", FlagsOf(summary.cells), 1);

  Lines lines = std::move(head);
  lines.emplace_back();
  if (!shown.empty()) {
    Grid grid = GridOf(shown, 1);
    if (!grid.fits()) grid = GridOf(shown, 0);
    grid.AddTo(kScreenLines - lines.size() - tail.size(), &lines);
  }
  if (training.empty() && !collectives.empty()) AddCollectives(collectives, &lines);
  AddLearning(summary, &lines);
  Append(std::move(tail), &lines);
  if (lines.size() > kScreenLines) lines.resize(kScreenLines);
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace gradsync::tools
