#ifndef GRADSYNC_TOOLS_TABLES_ANSWERS_H_
#define GRADSYNC_TOOLS_TABLES_ANSWERS_H_

#include <string>
#include <vector>

#include "tools/tables/rows.h"

// What tables say of one row against another. Sentences are printed from it.
namespace gradsync::tools {

struct Answer {
  std::string place{};  // "batch 2 over gloo"; empty where there is one place
  std::string row{}, baseline{};
  Verdict verdict = Verdict::kNone;
  Estimate difference{};  // of the row's time or loss less the baseline's, as a part of the baseline's
  std::string remark{};   // what would decide an open one: "`--time=5m`"; why there is no verdict
};

struct AnswerWords {
  const char* slower = "slower";
  const char* faster = "faster";
  std::string what{};  // what is compared, if not steps: "held-out loss over 5 seeds"
};

// A sentence for each place and baseline, or for each row where there are fewer rows than places: "Over gloo,
// against core: slower by at least 8 %: naive and flat; open: overlap (-3 to 24 %, decided with
// `--time=18m`)." Answers without a verdict are left out, unless they say why.
std::vector<std::string> SentencesOf(const std::vector<Answer>& answers, const AnswerWords& words = {});

// The answer of a comparison in a place.
Answer MakeAnswer(const std::string& place, const Setting& setting, const Comparison& comparison);
// The answers of settings about training. Each row is compared with its baseline. Baselines of one strategy
// and backend that differ in the size of buckets are compared with the first of them. Wrong rows and floors
// have no answers.
std::vector<Answer> MakeAnswers(const Settings& settings);
// What is known of the fastest exact row in a place.
enum class State {
  kNone,      // nothing: rows were disturbed, or did not take turns
  kUse,       // one row is the fastest, or at most kEqualWithin behind the fastest
  kEqual,     // several are, and any of them will do
  kUndecided  // no row is known to be
};

// What to use in a place, which is a setting over one backend. Rows that are lossy, wrong or without a
// verdict take no part.
//
// All of it holds at once in 95 cases of 100. If each row's bounds against all others hold for the fastest
// row (Hsu, see FindLeads), then that row is a candidate, and each row is behind it by at most its largest
// bound against a candidate.
struct Choice {
  NamedSetting at{};
  const Comparison* base = nullptr;  // of the row that all are compared with
  State state = State::kNone;
  // Those that may be the fastest, the shortest step first. One alone is the fastest. Of kUse the first is
  // the one to use.
  std::vector<const Comparison*> candidates{};
  // Those that were dropped (`--choose`), and of these those that might not have been in another launch.
  std::vector<const Comparison*> left_early{}, doubtful{};
  double behind = 0;   // how much longer than the fastest row's step the first one's is at most; of kEqual
                       // each one's; as all here as a part of the baseline's step
  double lead = kNaN;  // how much longer all other rows' steps are at least, if the baseline alone is a
                       // candidate; else how much longer the baseline's is
  Interval differences{};  // of the first candidate to the others

  const Setting& setting() const { return *at.setting; }
  // Of the rows with this baseline, itself included.
  std::vector<const Comparison*> comparisons() const;
  // Null if no row with this baseline is called so.
  const Comparison* Find(const std::string& label) const;
};
// One for each baseline.
std::vector<Choice> MakeChoices(const Settings& settings);
// Of a launch that chooses: the flags of the launches after it, and who leads. They take the rows that it did
// not show to be slower than another exact one in every place, and as many rounds or more, in whole blocks.
std::string ChoiceOfLaunches(const Settings& settings);
// "Use zero1: 7 to 12 % faster than core", "Equal within 3 %: use core or zero1", "Undecided: ...", or why
// there is no choice; and which rows took no part, and why.
std::string SentenceOf(const Choice& choice);
// "core costs 19 to 26 ms of its 98.8 ms step over gloo.": what the baselines cost; empty where they are
// many.
std::string CostSentence(const Settings& settings);
// "No verdict. `traced`: ...": the first reason of a setting; empty if all have verdicts.
std::string NoVerdict(const Settings& settings);

// "Not compared, because there is no core over shm: zero1@shm (123 ms). ...": the rows whose backend has no
// baseline, and how to compare them all the same; empty without such rows.
std::string NotCompared(const Settings& settings);

// How long to measure, as --time takes it, all launches together, until a difference that is open is shown,
// or shown to be within kEqualWithin, in four of five runs: whole blocks of rounds and half of one, if the
// estimate stays where it is and its interval narrows with the root of the rounds.
double SecondsToDecide(const Setting& setting, const Estimate& difference);
// "`--time=5m`", or how many launches where launches are the samples. `share`: of a round, that is measured.
std::string OptionsToDecide(const Setting& setting, const Estimate& difference, double share = 1);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_ANSWERS_H_
