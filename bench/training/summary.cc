#include "bench/training/summary.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "bench/records/units.h"

namespace gradsync::bench {
namespace {

std::string MedianOf(const Record& record, const char* name) {
  const auto found = record.samples.find(name);
  if (found == record.samples.end()) return "-";
  return ApproximateDuration(static_cast<double>(Median(found->second)));
}

}  // namespace

int64_t Median(std::vector<int64_t> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::string VerdictWord(const Fields& checks, bool drifts) {
  if (checks.Find("grads_equal") == nullptr) return "not checked";
  const bool equal = std::ranges::all_of(std::vector{"grads_equal", "params_equal", "replicas_equal"},
                                         [&](const char* name) { return checks.BoolOr(name, false); });
  return equal ? "equal" : drifts ? "replicas drift" : "WRONG";
}

void Summary::Add(const CaseLabels& labels, const VariantSpec& variant, const Record& record) {
  num_labels_ = labels.size();
  if (rows_.empty()) {
    rows_.emplace_back();
    for (const auto& [name, value] : labels) rows_.back().push_back(name);
    for (const char* const name : {"strategy", "step", "forward", "backward", "sync", "optimizer", "check"}) {
      rows_.back().push_back(name);
    }
  }
  Row row;
  for (const auto& [name, value] : labels) row.push_back(value);
  row.push_back(variant.name);
  const bool tells_backward = record.samples.contains("backward_ns");
  for (const char* const name :
       {"step_ns", "forward_ns", tells_backward ? "backward_ns" : "backward_and_sync_ns", "sync_exposed_ns",
        "optimizer_ns"}) {
    row.push_back(MedianOf(record, name));
  }
  row.push_back(VerdictWord(record.checks, variant.drifts()));
  rows_.push_back(std::move(row));
}

std::string Summary::ToString() const {
  const auto width = [&](size_t column, size_t least) {
    for (const Row& row : rows_) least = std::max(least, row[column].size());
    return static_cast<int>(least);
  };
  std::ostringstream text;
  for (const Row& row : rows_) {
    size_t i = 0;
    for (; i < num_labels_; ++i) text << std::setw(width(i, 0)) << row[i] << " ";
    text << " " << std::left << std::setw(width(i, 16)) << row[i] << std::right;
    while (++i + 1 < row.size()) text << " " << std::setw(9) << row[i];
    text << "  " << row[i] << "\n";
  }
  return text.str();
}

}  // namespace gradsync::bench
