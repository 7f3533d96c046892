#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"

// Sentences that tell how rows of the result tables (such as strategies) compare with their baselines, and
// which row is recommended.
namespace gradsync::tools {

struct Answer {
  std::string place{};  // name of the place, such as "batch 2 over gloo"; empty if there is only one place
  std::string row{}, baseline{};
  Verdict verdict = Verdict::kNone;
  Estimate difference{};  // of the row to the baseline, as a fraction, usually of the baseline's time or loss
  // If the verdict is kOpen: the flags of the benchmark with which a longer measurement would decide it, such
  // as "`--time=5m`". If the verdict is kNone: the reason why there is none, such as "disturbed:17%".
  // Otherwise, or if the flags or the reason are not known, `remark` is empty.
  std::string remark{};
};

struct AnswerWords {
  const char* slower = "slower";
  const char* faster = "faster";
  std::string what{};  // the compared quantity, if it is not the step: "held-out loss over 5 seeds"
};

// WriteSentences groups answers by Answer::place, which names a setting, a backend or both: "batch 2 over
// gloo". Returns one sentence for each place and baseline. It lists the verdicts on the rows of this place:
// "Over gloo, against core: slower by at least 8 %: naive and flat; open: overlap (-3 to 24 %, decided with
// `--time=18m`)." If the answers name fewer rows than places, returns one sentence for each row and baseline
// instead, which lists the verdicts on this row by place. If more than six rows or places of a sentence have
// the same verdict, the sentence has their number instead of their names. WriteSentences omits answers that
// have neither a verdict nor a remark.
std::vector<std::string> WriteSentences(const std::vector<Answer>& answers, const AnswerWords& words = {});

Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison);
// Makes an Answer (the difference and the verdict) for each comparison of a strategy with another row, its
// baseline. If the baseline strategy was measured with several bucket sizes, the row of each further size is
// compared with the row of the first size, too. Makes no answers about strategies without communication,
// about settings whose rows must not be compared (Setting::void_reason), or against a baseline with wrong
// gradients or parameters (the warning kUnequal).
std::vector<Answer> MakeAnswers(const Settings& settings);
// What is known about which strategy has the shortest step, among those whose gradients are exact by design
// and whose results are right.
enum class State {
  kNone,  // nothing, for example because other programs disturbed the measurement
  // One row is the fastest, or at most kEqualWithin (a fraction of the baseline's step) slower than the
  // fastest.
  kUse,
  kEqual,     // several rows are at most kEqualWithin slower than the fastest
  kUndecided  // no row is known to be at most kEqualWithin slower than the fastest
};

// The recommendation among the rows of one setting (model, batch size, ...) that have the same baseline. Rows
// are left out if their gradients are not exact by design (Measurement::is_exact), or if their comparison
// with the baseline has no verdict, for example because a check found a wrong result.
//
// `candidates`, `behind` and `state` follow from the bounds of FindLeads. All three are correct with a
// probability of at least 95 %.
struct Choice {
  NamedSetting at{};
  const Comparison* base = nullptr;  // comparison of the baseline with itself
  State state = State::kNone;
  // Rows that all launches measured and that may be the fastest, ordered by their estimated difference to the
  // baseline. If there is only one, it is the fastest of the comparable rows with exact gradients that all
  // launches measured. If `state` is State::kUse, candidates[0] is recommended.
  std::vector<const Comparison*> candidates{};
  // Rows that only the first launch measured, because it showed that they are slower than another row
  // (`--choose`).
  std::vector<const Comparison*> left_early{};
  // Rows of left_early that may be the fastest after all. The first launch alone showed that they are slower;
  // if its bounds include how much all launches vary, it no longer shows this.
  std::vector<const Comparison*> doubtful{};
  // Upper bound of how much longer the step of candidates[0] is than the step of the fastest row. If `state`
  // is kEqual, the bound holds for all candidates. The members behind, lead, bounds and differences are
  // fractions of the time of the baseline's step.
  double behind = 0;
  // Lower bound of how much shorter the step of the only candidate is than the steps of other rows; NaN if
  // there are several candidates or none. If the only candidate is the baseline, the step of each other
  // comparable row with exact gradients that all launches measured is longer than the baseline's by at least
  // `lead`. If the only candidate is another row, the baseline's step is longer than that row's by at least
  // `lead`.
  double lead = kNaN;
  // One-sided bounds (from FindLeads) of how much longer the step of a row is than the baseline's step. A row
  // has a bound only if the bound shows that it is slower or faster than the baseline although its two-sided
  // interval contains 0. A bound of 0.02 means that the row is slower than the baseline by at least 2 %; a
  // bound of -0.02, that it is faster by at least 2 %.
  std::map<const Comparison*, double> bounds{};
  Interval differences{};  // contains the differences of candidates[0] to all other candidates

  const Setting& setting() const { return *at.setting; }
  // Returns the comparisons of all rows of the setting with the baseline base->row, including `base`, the
  // comparison of the baseline with itself.
  std::vector<const Comparison*> comparisons() const;
  // Returns the comparison of the row whose Row::label is `label`; null if comparisons() has none.
  const Comparison* Find(const std::string& label) const;
};
std::vector<Choice> MakeChoices(const Settings& settings);
// With --choose, a benchmark is launched several times, and the first launch chooses the variants that the
// later ones measure. Returns the benchmark's flags --variants and --steps for the later launches, and a
// second line with the number of these variants and the fastest so far in each setting. The later launches
// leave out variants that were shown, in every setting, to be slower than another variant with exact
// gradients. They leave out no baseline. --steps asks for at least as many rounds (one step of each variant)
// as the first launch had.
std::string ChooseForLaunches(const Settings& settings);
// Returns a recommendation for users: "Use zero1: 7 to 12 % faster than core", "Equal within 3 %: use core or
// zero1", "Undecided: ...", or the reason why there is none (an empty text if Setting::void_reason has the
// reason). A recommendation also names the rows that must not be compared, each with the reason: "not judged:
// flat (disturbed:17%)".
std::string WriteSentence(const Choice& choice);
// Returns the cost of synchronisation in a step of each baseline in the settings: "core costs 19 to 26 ms of
// its 98.8 ms step over gloo."; empty if this would list more than four baselines, or if no cost is known.
std::string CostSentence(const Settings& settings);
// Returns "No verdict. " and the void_reason (for example, too few steps) of the first setting that has one;
// empty if no setting has a void_reason.
std::string NoVerdict(const Settings& settings);

// Returns a text about strategies that have no baseline over their backend, and the flag that compares them
// anyway: "Not compared, because there is no core over shm: zero1@shm (123 ms)"; empty if there are none.
std::string NotCompared(const Settings& settings);

// Returns how long all launches of a measurement should take together (--time, in seconds), so that an
// undecided difference is decided with a probability of 80 %: shown to be different from 0, or to be within
// kEqualWithin. Assumes that the estimated difference is the true one, and that its interval narrows with the
// square root of the measured time.
double SecondsToDecide(const Setting& setting, const Estimate& difference);
// Returns the benchmark's flags with which a new measurement would probably decide this undecided difference:
// "`--time=5m`" or, if it takes several launches, "`--time=5m --repeats=12`" (12 launches). If the variation
// between launches makes the interval wide, the flags ask for more launches. If the new measurement has only
// some of the setting's rows, `share` is the fraction of a round's time that these rows take.
std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share = 1);

}  // namespace gradsync::tools
