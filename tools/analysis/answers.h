#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/analysis/rows.h"

// The results of comparing one row with another row, and the sentences about them.
namespace gradsync::tools {

struct Answer {
  std::string place{};  // name of the place, such as "batch 2 over gloo"; empty if there is only one place
  std::string row{}, baseline{};
  Verdict verdict = Verdict::kNone;
  Estimate difference{};  // relative difference of the row's time or loss to the baseline
  // Option that would decide an open answer, such as "`--time=5m`"; or the reason why there is no verdict.
  std::string remark{};
};

struct AnswerWords {
  const char* slower = "slower";
  const char* faster = "faster";
  std::string what{};  // the compared quantity, if it is not the step: "held-out loss over 5 seeds"
};

// Returns one sentence for each place and baseline, or one for each row if there are fewer rows than places:
// "Over gloo, against core: slower by at least 8 %: naive and flat; open: overlap (-3 to 24 %, decided with
// `--time=18m`)." Omits answers that have neither a verdict nor a reason.
std::vector<std::string> WriteSentences(const std::vector<Answer>& answers, const AnswerWords& words = {});

// Makes the answer of a comparison in a place.
Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison);
// Makes the answers of settings about training. Each row is compared with its baseline. If baselines of one
// strategy and backend differ in bucket size, they are compared with the first of these baselines. Wrong rows
// and floors have no answers.
std::vector<Answer> MakeAnswers(const Settings& settings);
// What is known about the fastest exact row in a place.
enum class State {
  kNone,  // nothing is known, because rows were disturbed, or did not take turns
  // One row is the fastest, or its step is at most kEqualWithin longer than the fastest row's step.
  kUse,
  kEqual,     // the steps of several rows are at most kEqualWithin longer than the fastest row's step
  kUndecided  // no row is known to be within kEqualWithin of the fastest row
};

// The recommendation for a place, which is a setting over one backend. A choice ignores rows that are lossy
// or wrong, and rows without a verdict.
//
// In 95 of 100 cases all statements of a choice are correct together. These are the cases in which the bounds
// of FindLeads (Hsu) are correct for the truly fastest row: then this row is a candidate, and no row's step
// is longer than the fastest row's step by more than the row's largest bound against a candidate.
struct Choice {
  NamedSetting at{};
  const Comparison* base = nullptr;  // comparison of the baseline, with which all rows are compared
  State state = State::kNone;
  // Rows that may be the fastest, ordered by step. A single candidate is the fastest row. For kUse, the first
  // candidate is the row to use.
  std::vector<const Comparison*> candidates{};
  // Exact rows that were dropped after the first launch (`--choose`).
  std::vector<const Comparison*> left_early{};
  // Rows of left_early that another launch might have kept.
  std::vector<const Comparison*> doubtful{};
  // Upper bound of how much longer the step of the first of `candidates` is than the step of the fastest row.
  // If the state is kEqual, no candidate's step is longer by more than this. This field and the fields below
  // are fractions of the baseline's step.
  double behind = 0;
  // Lower bound of how much longer all other rows' steps are, if the baseline is the only candidate; else
  // lower bound of how much longer the baseline's step is. It is the end of the difference's interval if the
  // interval does not contain 0, else the bound in `bounds`.
  double lead = kNaN;
  // One-sided bounds of those differences to the baseline that the advice uses although their intervals
  // contain 0. A bound above 0 means that the row is slower by at least this fraction; a bound below 0 means
  // that it is faster by at least this fraction.
  std::map<const Comparison*, double> bounds{};
  Interval differences{};  // difference of the first candidate to the other candidates

  const Setting& setting() const { return *at.setting; }
  // Returns the comparisons of all rows with this baseline, including the baseline itself.
  std::vector<const Comparison*> comparisons() const;
  // Returns null if no row with this baseline has this label.
  const Comparison* Find(const std::string& label) const;
};
// Makes one choice for each baseline.
std::vector<Choice> MakeChoices(const Settings& settings);
// Returns the flags of the launches that follow a choosing launch, and a line with the fastest row. The later
// launches take the rows that are not shown to be slower than another exact row in every setting, and have at
// least the rounds of the choosing launch, in whole blocks.
std::string ChooseForLaunches(const Settings& settings);
// Returns "Use zero1: 7 to 12 % faster than core", "Equal within 3 %: use core or zero1", "Undecided: ...",
// or the reason why there is no choice; and names ignored rows, with reasons.
std::string WriteSentence(const Choice& choice);
// Returns "core costs 19 to 26 ms of its 98.8 ms step over gloo.": the costs of the baselines; empty if there
// are many baselines.
std::string CostSentence(const Settings& settings);
// Returns "No verdict. `traced`: ...": the first reason of a setting; empty if all settings have verdicts.
std::string NoVerdict(const Settings& settings);

// Returns "Not compared, because there is no core over shm: zero1@shm (123 ms). ...". The text names the rows
// whose backend has no baseline, and the flag that compares them anyway; empty without such rows.
std::string NotCompared(const Settings& settings);

// Returns the total time of all launches (--time), in seconds, after which an open difference is shown, or
// shown to be within kEqualWithin, in four of five runs. Assumes that the estimate does not change, and that
// the interval narrows with the square root of the number of rounds. The time is for whole blocks of rounds
// and one half block.
double SecondsToDecide(const Setting& setting, const Estimate& difference);
// Returns "`--time=5m`", and the number of launches if launches are the samples. `share` is the fraction of a
// round that is measured.
std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share = 1);

}  // namespace gradsync::tools
