#include "bench/training/summary.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

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

void Summary::Add(const Case& the_case, const VariantSpec& variant, const Record& record) {
  num_labels_ = the_case.labels.size();
  std::vector<std::string> names, row;
  for (const auto& [name, value] : the_case.labels) {
    names.push_back(name);
    row.push_back(value);
  }
  names.insert(names.end(), {"strategy", "step", "forward", "backward", "sync", "optimizer", "check"});
  const char* const backward =
      record.samples.contains("backward_ns") ? "backward_ns" : "backward_and_sync_ns";
  row.insert(row.end(), {variant.name, MedianOf(record, "step_ns"), MedianOf(record, "forward_ns"),
                         MedianOf(record, backward), MedianOf(record, "sync_exposed_ns"),
                         MedianOf(record, "optimizer_ns"), VerdictWord(record.checks, variant.drifts())});
  if (rows_.empty()) rows_.push_back(std::move(names));
  rows_.push_back(std::move(row));
}

std::string Summary::ToString() const {
  const auto width = [&](size_t column, size_t least) {
    for (const auto& row : rows_) least = std::max(least, row[column].size());
    return static_cast<int>(least);
  };
  std::ostringstream text;
  for (const auto& row : rows_) {
    size_t i = 0;
    for (; i < num_labels_; ++i) text << std::setw(width(i, 0)) << row[i] << " ";
    text << " " << std::left << std::setw(width(i, 16)) << row[i] << std::right;
    while (++i + 1 < row.size()) text << " " << std::setw(9) << row[i];
    text << "  " << row[i] << "\n";
  }
  return text.str();
}

}  // namespace gradsync::bench
