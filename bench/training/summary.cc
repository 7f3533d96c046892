#include "bench/training/summary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "bench/records/units.h"

namespace gradsync::bench {

std::string VerdictWord(const CheckFields& checks, bool drifts) {
  if (checks.Find("grads_equal") == nullptr) return "not checked";
  const bool equal =
      std::ranges::all_of(std::vector<CheckName>{"grads_equal", "params_equal", "replicas_equal"},
                          [&](CheckName name) { return checks.BoolOr(name, false); });
  if (equal && checks.StringOr("reference", "") == "equation") return "as its equation";
  return equal ? "equal" : drifts ? "replicas drift" : "WRONG";
}

void Summary::Add(const std::string& cell, const TrainingVariant& variant,
                  const std::vector<int64_t>& steps_ns, const CheckFields& checks) {
  const double sum_ns = std::accumulate(steps_ns.begin(), steps_ns.end(), 0.0);
  rows_.push_back(
      {cell, variant, sum_ns / static_cast<double>(steps_ns.size()), VerdictWord(checks, variant.drifts())});
}

std::string Summary::ToString() const {
  constexpr int kIndent = 2;
  int width = 0;
  for (const Row& row : rows_)
    width = std::max(
        {width, kIndent + static_cast<int>(row.variant.name().size()), static_cast<int>(row.cell.size())});
  std::string text, cell;
  for (const Row& row : rows_) {
    if (row.cell != cell) {
      text += absl::StrFormat("%-*s %9s  check\n", width, row.cell, "step");
      cell = row.cell;
    }
    text += absl::StrFormat("%*s%-*s %9s  %s\n", kIndent, "", width - kIndent, row.variant.name(),
                            ApproximateDuration(row.step_ns), row.verdict);
  }
  return text;
}

}  // namespace gradsync::bench
