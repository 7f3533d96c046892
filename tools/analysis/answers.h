#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"

// Writes sentences that tell how rows of the result tables (such as strategies) compare with their baselines,
// and which row is recommended.
namespace gradsync::tools {

struct Answer {
  std::string place{};  // name of the place, such as "batch 2 over gloo"; empty if there is only one place
  std::string row{}, baseline{};
  Verdict verdict = Verdict::kNone;
  Estimate difference{};  // of the row to the baseline, as a fraction, usually of the baseline's time or loss
  // If the verdict of this Answer is kOpen (undecided), `remark` has the benchmark's flags for a longer
  // measurement that would probably give a verdict, such as "`--time=5m`". If the verdict is kNone, `remark`
  // has the reason for the missing verdict, such as "disturbed:17%" (other work used 17 % of the host's CPU
  // time). With kSlower, kFaster or kEqual, `remark` is empty; with kOpen or kNone, it may be empty.
  std::string remark{};
};

struct AnswerWords {
  const char* slower = "slower";
  const char* faster = "faster";
  std::string what{};  // the compared quantity, if it is not the step: "held-out loss over 5 seeds"
};

// An Answer tells how one row (such as a strategy) compares with its baseline. WriteSentences groups answers
// by Answer::place, which names a setting (such as a batch size), a backend or both: "batch 2 over gloo".
// Returns one sentence for each place and baseline, with the verdicts on the rows of this place: "Over gloo,
// against core: slower by at least 8 %: naive and flat; open: overlap (-3 to 24 %, decided with
// `--time=18m`)." If `answers` contain fewer different rows than places, returns one sentence for each row
// and baseline instead. The sentence about a row lists, for each verdict (slower, for example), the settings
// or backends in which the row has this verdict. If more than six rows of a place have the same verdict, the
// sentence about this place gives only their number: "7 rows". A sentence about one row likewise gives only
// the number of places, "7 places", if more than six places (settings or backends) have the same verdict.
// WriteSentences writes nothing about an Answer with the verdict kNone and an empty `remark`.
std::vector<std::string> WriteSentences(const std::vector<Answer>& answers, const AnswerWords& words = {});

Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison);
// Makes an Answer (the difference and the verdict) for each comparison of a strategy with another row, its
// baseline. The baseline strategy may have several rows over one backend, one for each bucket size.
// MakeAnswers also compares each later one of these rows (in the order of Setting::rows) with the first one.
// Makes no answers about strategies without communication (such as `none`), and none about a setting whose
// rows must not be compared (Setting::void_reason). Makes no answers about comparisons with a baseline that
// has the warning kUnequal, because the baseline's gradients or parameters are wrong.
std::vector<Answer> MakeAnswers(const Settings& settings);
// A State tells what is known about which row (a strategy with options, over a backend) has the shortest
// training step. A State says nothing about rows whose gradients are not exact by design, or in whose results
// a check found an error.
enum class State {
  kNone,  // nothing, for example because other programs disturbed the measurement
  // One row is recommended, Choice::candidates[0], which has the shortest estimated step. FindLeads shows
  // that this row is the fastest, or slower than the fastest by less than kEqualWithin (3 % of the baseline's
  // step).
  kUse,
  kEqual,     // several rows are at most kEqualWithin slower than the fastest
  kUndecided  // no row is known to be at most kEqualWithin slower than the fastest
};

// A Choice is the recommendation among the rows of one setting (model, batch size, ...) that have the same
// baseline. A row takes part in a choice, that is, it may be recommended, if its gradients are exact by
// design (Measurement::is_exact) and its Comparison::no_verdict is empty. A row other than the baseline must
// also have a verdict: its Comparison::verdict is not kNone. The verdict is kNone, for example, if a check
// found a wrong result.
//
// The members `candidates`, `behind` and `state` are computed from the bounds of FindLeads: lower bounds of
// how much longer each row's step is than each other row's step.
struct Choice {
  NamedSetting at{};
  const Comparison* base = nullptr;  // comparison of the baseline with itself
  State state = State::kNone;
  // The rows that may have the shortest step: for none of them, FindLeads shows that another row is faster.
  // Only rows that take part in the choice (their gradients are exact, and nothing forbids comparing them;
  // see Choice) and that all launches measured can be candidates. A launch is one start of all processes. The
  // candidates are ordered by their estimated difference to the baseline, the fastest first. If `state` is
  // State::kUse, WriteSentence recommends candidates[0] to the user.
  std::vector<const Comparison*> candidates{};
  // With the flag --choose: the rows that only the first launch measured, because that launch showed that
  // they are slower than another row.
  std::vector<const Comparison*> left_early{};
  // The rows of left_early that may be the fastest after all. Step times vary so much between all launches
  // that the first launch does not prove that another row is faster than a row in `doubtful`.
  std::vector<const Comparison*> doubtful{};
  // Upper bound of how much longer the step of candidates[0]->row is than the truly shortest step of all rows
  // that take part in this Choice. If `state` is kEqual, the bound holds for every candidate. The members
  // behind, lead, bounds and differences are fractions of the baseline's step time, which is the trimmed mean
  // of its steps.
  double behind = 0;
  // Lower bound of how much shorter the step of the only candidate (the fastest row) is than the steps of
  // other rows, as a fraction of the baseline's step; NaN if the bound is unknown, for example because there
  // are several candidates. If the only candidate is the baseline, the step of each other row that takes part
  // in the choice and is not in left_early is at least (1 + `lead`) times the baseline's step. If the only
  // candidate is another row, its step is at most (1 - `lead`) times the baseline's step.
  double lead = kNaN;
  // Maps the comparison of a row (an element of comparisons()) to a one-sided bound from FindLeads: how much
  // longer the row's step is than the baseline's step. A row has a bound only if the bound shows that it is
  // slower or faster than the baseline although the two-sided interval of the same difference
  // (Comparison::estimate) contains 0. A bound of 0.02 means that the row is slower than the baseline by at
  // least 2 %; a bound of -0.02 means that the row is faster by at least 2 %.
  std::map<const Comparison*, double> bounds{};
  Interval differences{};  // contains the differences of candidates[0] to all other candidates

  const Setting& setting() const { return *at.setting; }
  // Returns the elements of Setting::comparisons that compare a row with this choice's baseline, also the
  // comparison of the baseline with itself.
  std::vector<const Comparison*> comparisons() const;
  // Returns the element of comparisons() whose row has the label `label`; null if there is none.
  const Comparison* Find(const std::string& label) const;
};
std::vector<Choice> MakeChoices(const Settings& settings);
// With --choose, a benchmark is launched several times. From the measurements of the first launch
// (`settings`), ChooseForLaunches chooses the variants (strategies with options, over a backend) that the
// later launches measure. The first line of the returned text has the benchmark's flags --variants and
// --steps for all launches after the first. The second line, for the user, has the number of chosen variants
// and, for each Choice, the fastest variant so far (candidates[0]). The later launches leave out a variant
// with exact gradients if the first launch shows, in every setting, that some other variant with exact
// gradients is faster (not necessarily the same one in all settings). The later launches leave out no
// baseline. --steps asks for at least as many rounds (one step of each variant) as the first launch had.
std::string ChooseForLaunches(const Settings& settings);
// Returns a recommendation for users: "Use zero1: 7 to 12 % faster than core", "Equal within 3 %: use core or
// zero1", "Undecided: ...". If no row can be recommended, returns the reason: "No answer: rows did not take
// turns". If the reason is Setting::void_reason (no rows of the setting may be compared), returns an empty
// text. A recommendation ends with the strategies, such as `flat`, that must not be compared with the
// baseline. Each has its reason (Comparison::no_verdict): "not judged: flat (disturbed:17%)".
std::string WriteSentence(const Choice& choice);
// Returns a sentence with the interval of each baseline's cost of synchronisation: "core costs 19 to 26 ms of
// its 98.8 ms step over gloo." The cost is the baseline's step time minus the step time without
// communication. Returns an empty text if no cost is known, or if more than four are known.
std::string CostSentence(const Settings& settings);
// Returns "No verdict. " and the void_reason (for example, too few steps) of the first setting that has one;
// empty if no setting has a void_reason.
std::string NoVerdict(const Settings& settings);

// Returns a text about the rows over backends for which the baseline strategy was not measured. An example
// with the baseline core: "Not compared, because there is no core over shm: zero1@shm (123 ms)". The text
// also has a command that compares all rows with one row: "`summarize DIR --baseline_row=core@gloo`". The
// text is empty if the baseline strategy was measured over the backends of all rows.
std::string NotCompared(const Settings& settings);

// Returns the value of --time (in seconds, for all launches together) with which a new measurement decides an
// undecided difference with a probability of 80 %. A difference is decided if it is shown to be different
// from 0, or to be at most kEqualWithin (3 %). Assumes that the estimated difference is the true one, and
// that its interval narrows with the square root of the measured time.
double SecondsToDecide(const Setting& setting, const Estimate& difference);
// Returns the benchmark's flags for a new measurement that would probably show that `difference` is not 0, or
// that it is at most kEqualWithin. Examples: "`--time=5m`" and, with 12 launches, "`--time=5m --repeats=12`".
// If the variation between launches makes the interval wide, the flags ask for more launches. `share` is 1 if
// the new measurement has all rows of `setting`. Otherwise `share` is the time of one turn of each row of the
// new measurement, divided by Setting::round_s (one turn of each row of `setting`).
std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share = 1);

}  // namespace gradsync::tools
