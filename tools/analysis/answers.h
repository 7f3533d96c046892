#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"

// Writes sentences that compare rows of the result tables with their baselines, and recommend a row.
namespace gradsync::tools {

struct Answer {
  std::string place{};  // name of the place, such as "batch 2 over gloo"; empty if there is only one place
  std::string row{}, baseline{};
  Verdict verdict = Verdict::kNone;
  Estimate difference{};  // of the row to the baseline, as a fraction, usually of the baseline's time or loss
  // If the verdict is kOpen (undecided), `remark` may have benchmark flags for a longer measurement:
  // "`--time=5m`". If the verdict is kNone, `remark` may have the reason, such as "disturbed:17%": work other
  // than the ranks' used 17 % of the CPU time.
  std::string remark{};
};

struct AnswerWords {
  const char* slower = "slower";
  const char* faster = "faster";
  std::string what{};  // the compared quantity, if it is not the step: "held-out loss over 5 seeds"
};

// Returns one sentence for each place and baseline: "Over gloo, against core: slower by at least 8 %: naive
// and flat." A place is a setting (such as "batch 2"), a backend ("over gloo") or both. If `answers` has
// fewer different rows than places, WriteSentences instead returns one sentence for each row and baseline:
// "naive against core: slower by at least 8 %: batch 2 and batch 4." Answers with the verdict kNone and an
// empty `remark` are left out.
std::vector<std::string> WriteSentences(const std::vector<Answer>& answers, const AnswerWords& words = {});

Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison);
// Makes an Answer for each comparison of a row with its baseline, but none for that of a baseline with
// itself. If the baseline strategy was measured with several bucket sizes over one backend, its later rows
// are compared with its first row. Leaves out strategies without communication, baselines with wrong
// gradients or weights (Warning::kUnequal), and the rows compared with these baselines. Leaves out settings
// whose rows must not be compared (Setting::void_reason).
std::vector<Answer> MakeAnswers(const Settings& settings);
// Tells whether, among the rows with exact gradients, a row is known whose training step is the shortest or
// nearly the shortest.
enum class State {
  kNone,  // nothing is known, for example because other programs disturbed the measurement
  // Choice::candidates[0] is recommended: its step exceeds the shortest step by less than 3 % (kEqualWithin)
  // of the baseline's step.
  kUse,
  kEqual,     // several rows are at most kEqualWithin slower than the fastest
  kUndecided  // no row is known to be at most kEqualWithin slower than the fastest
};

// The recommendation among the rows of one setting (model, batch size and so on) with the same baseline. A
// row takes part if its gradients are exact by design, all launches measured it, and its Comparison::verdict
// is not kNone. The baseline needs no verdict, but an empty Comparison::no_verdict. The numbers in a Choice
// are fractions of the baseline's step time.
struct Choice {
  NamedSetting at{};
  const Comparison* base = nullptr;  // comparison of the baseline with itself
  State state = State::kNone;
  // The rows that may have the shortest step, the row with the shortest estimated step first. If there are
  // candidates, every other row that takes part in the choice was shown to be slower than another row. There
  // are no candidates if no row takes part, or if setting().takes_turns() is false. There are none either if
  // a single row takes part, and no row with exact gradients left early.
  std::vector<const Comparison*> candidates{};
  // The rows that only the first launch of a benchmark with --choose measured (Row::left_early).
  std::vector<const Comparison*> left_early{};
  // The elements of `left_early` that may be the fastest; empty if there are no candidates.
  std::vector<const Comparison*> doubtful{};
  // Upper bound of the step time of candidates[0] minus the shortest step time of the rows that take part,
  // divided by the baseline's step time. If `state` is kEqual, the bound holds for each candidate in place of
  // candidates[0].
  double behind = 0;
  // If the baseline is the only candidate, all other rows that take part, and the exact rows that left early,
  // are slower than the baseline by at least `lead`. If another row is the only candidate, this row is faster
  // than the baseline by at least `lead`. `lead` may be 0 or negative. `lead` is NaN unless there is exactly
  // one candidate and the baseline takes part in the choice.
  double lead = kNaN;
  // One-sided bounds (FindLeads) for rows that are slower or faster than the baseline, although their
  // Comparison::estimate.interval contains 0. Empty unless there is exactly one candidate. The bound 0.02
  // means: at least 2 % slower than the baseline; -0.02: at least 2 % faster.
  std::map<const Comparison*, double> bounds{};
  Interval differences{};  // contains the differences of candidates[0] to all other candidates

  const Setting& setting() const { return *at.setting; }
  // Returns pointers to the elements of setting().comparisons whose baseline is `base->row`, including `base`
  // itself.
  std::vector<const Comparison*> comparisons() const;
  // Returns the element of comparisons() whose row has the label `label`; null if there is none.
  const Comparison* Find(const std::string& label) const;
};
std::vector<Choice> MakeChoices(const Settings& settings);
// Chooses the variants for the later launches of a benchmark with --choose, from the results of the first
// launch. The first line of the returned text has the flags --variants and --steps for the later launches.
// The second line has the number of chosen variants, and the fastest variant so far of each setting and
// baseline, if known. A variant of gradsync is left out only if every setting that has it shows that it is
// not the fastest.
std::string ChooseForLaunches(const Settings& settings);
// Returns a recommendation for users, such as "Use zero1: 7 to 12 % faster than core". If no row can be
// recommended, returns the reason, such as "No answer: rows did not take turns". The text is empty if
// Setting::void_reason is not empty and the baseline's Comparison::no_verdict is empty. The text may end with
// strategies that must not be compared, with the reasons in brackets: "not judged: flat (disturbed:17%)".
std::string WriteSentence(const Choice& choice);
// Returns the cost of synchronisation for each baseline: "core costs 19 to 26 ms of its 98.8 ms step over
// gloo." Leaves out baselines with wrong gradients or weights (Warning::kUnequal). The cost is the
// baseline's step time minus the step time without communication. Returns an empty text if no cost is known,
// or if more than four are known.
std::string CostSentence(const Settings& settings);
// Returns a text with the first Setting::void_reason (such as too few steps); empty if no setting has one.
std::string NoVerdict(const Settings& settings);

// Returns a text with the rows of gradsync that have no baseline: "Not compared, because there is no core
// over shm: zero1@shm (123 ms)." More than six rows are only counted. Rows without communication or without a
// known step time are left out. The text is empty if no rows remain.
std::string NotCompared(const Settings& settings);

// Returns the value of --time, in seconds, with which a new measurement decides `difference` with a
// probability of about 80 %. A difference is decided if its interval excludes 0 or lies within +- 3 %
// (kEqualWithin).
double SecondsToDecide(const Setting& setting, const Estimate& difference);
// Returns benchmark flags for a new measurement, such as "`--time=5m --repeats=12`". The new interval of the
// difference would probably exclude 0 or lie within +- 3 % (kEqualWithin). `share` is the duration of a round
// of the new measurement divided by Setting::round_s; 1 if the rows are the same.
std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share = 1);

}  // namespace gradsync::tools
