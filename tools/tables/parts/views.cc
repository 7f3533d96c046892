#include "tools/tables/parts/views.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_format.h"

namespace gradsync::tools {

double View::num_collectives() const {
  const bool is_told = !measured().is_published() && measured().Find("comm_busy_ns") != nullptr;
  return is_told ? static_cast<double>(measured().record.buckets.size()) : kNaN;
}

Settings SelectTraining(const Settings& settings) {
  Settings training;
  std::ranges::copy_if(settings, std::back_inserter(training),
                       [](const NamedSetting& at) { return !at.setting->any().strategy().empty(); });
  return training;
}

std::vector<Run> SplitRuns(const Settings& settings) {
  std::map<std::string, std::vector<const Setting*>> by_id;
  std::vector<std::string> ids;  // in the order in which they were read
  for (const auto& [setting, name] : SelectTraining(settings)) {
    // Some published rows have only phases.
    if (std::ranges::none_of(setting->rows,
                             [](const Row& row) { return row.measured->Find("step_ns") != nullptr; }))
      continue;
    const Measurement& any = *setting->any().measured;
    const std::string id = any.is_published() ? "" : any.record.run_id;
    if (!by_id.contains(id)) ids.push_back(id);
    by_id[id].push_back(setting);
  }
  std::vector<Run> runs;
  for (const std::string& id : ids) {
    Run& run = runs.emplace_back(Run{.settings = NameSettings(by_id[id])});
    if (ids.size() < 2) continue;
    const Setting* const first = run.settings.front().setting;
    run.name = run.settings.size() == 1 ? std::ranges::find(settings, first, &NamedSetting::setting)->name
                                        : first->any().config().StringOr("model", "");
  }
  return runs;
}

std::vector<Field<View>> RunFields(int section) {
  std::vector<Field<View>> fields = {
      {{.name = "device"}, Text("device")},
      {{.name = "dtype"}, Text("dtype")},
      {{.name = "world_size"}, [](const View& view) { return view.measured().world_size(); }},
      ConfigField("threads_per_rank"),
      ConfigField("comm_threads"),
      // Published figures may lack the number of steps.
      {{.name = "steps", .kind = Kind::kInteger},
       [](const View& view) {
         return view.measured().num_steps == 0 ? kNaN : static_cast<double>(view.measured().num_steps);
       }},
      {{.name = "launches", .kind = Kind::kInteger},
       [](const View& view) {
         return view.measured().is_published() ? kNaN : static_cast<double>(view.measured().launches.size());
       }},
      {{.name = "run"}, [](const View& view) { return view.measured().record.run_id; }},
  };
  for (Field<View>& field : fields) {
    field.column.said_once = true;
    field.column.section = section;
  }
  return fields;
}

std::string View::equality() const {
  const Measurement& measurement = measured();
  if (measurement.is_floor()) return "floor: no sync";
  const std::string reference = measurement.record.checks.StringOr("reference", "none");
  if (reference == "none" || !measurement.equal()) return "not checked";
  // PyTorch rounds differently, and rounds more if it sends bf16.
  const double tolerance = measurement.record.checks.DoubleOr("tolerance", 0);
  if (*measurement.equal() && measurement.is_peer() && tolerance > 1e-3)
    return absl::StrFormat("within %.2g", tolerance);
  if (*measurement.equal()) return reference == "equation" ? "as its equation" : "yes";
  if (!measurement.grads_equal.value_or(true)) {
    return absl::StrFormat("no (%.1e)", measurement.grad_rel_error.value_or(kNaN));
  }
  if (!measurement.params_equal.value_or(true)) {
    return absl::StrFormat("no (parameters %.1e)", measurement.param_rel_error.value_or(kNaN));
  }
  return "no (replicas differ)";
}

double View::peak_bytes_per_parameter() const {
  return row.facts().DoubleOr("peak_bytes_in_use", kNaN) / row.facts().DoubleOr("num_parameters", kNaN);
}

}  // namespace gradsync::tools
