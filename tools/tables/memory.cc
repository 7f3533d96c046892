#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// The table of what a rank sends and keeps, compared with theory.
namespace gradsync::tools {
namespace {

auto PerParameter(bench::FactName fact) {
  return [fact](const View& view) { return Fact(fact)(view) / Fact("num_parameters")(view); };
}

}  // namespace

void AddMemoryTables(const Settings& settings, std::vector<Table>* tables) {
  enum Section { kParts = 1, kAll };
  const auto part = [](const char* name, bench::FactName fact) {
    return Field<View>({.name = name, .digits = 3, .section = kParts}, PerParameter(fact));
  };
  const auto all = [](const char* name, bench::FactName fact) {
    return Field<View>({.name = name, .digits = 3, .section = kAll}, PerParameter(fact));
  };
  std::vector<Field<View>> fields = {
      {{.name = "variant", .audience = Audience::kPeople}, &View::name},
      {{.name = "variant", .audience = Audience::kMachines}, &View::variant},
      {{.name = "step (s)", .section = kNowhere}, &View::step_s},
      {{.name = "sent (MB)", .digits = 3, .section = kParts}, Million("sent_bytes_per_step")},
      {{.name = "in theory (MB)", .digits = 3, .section = kParts}, Million("theory_sent_bytes")},
      part("weights", "weights_bytes"),
      part("gradients", "gradients_bytes"),
      part("state", "state_bytes"),
      part("in theory", "theory_bytes"),
      all("built", "built_bytes"),
      all("before update", "before_update_bytes"),
      all("after update", "after_update_bytes"),
      all("peak", "peak_bytes_in_use"),
      {{.name = "process (MB)", .digits = 3, .section = kAll}, Million("peak_resident_bytes")},
      {{.name = "model", .section = kNowhere, .said_once = true}, Text("model")},
      ConfigField("batch_size", kNowhere),
      ConfigField("seq_len", kNowhere)};
  Append(RunFields(kNowhere), &fields);
  TableOf<View> table("memory", "What a rank sends in a step, and bytes of its memory for each parameter",
                      std::move(fields));
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows)
      if (row.facts().Find("built_bytes") != nullptr) table.Add({at, row});
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  table.SetSectionTitle(kAll, "All memory of the variant, in bytes for each parameter");
  table.AddNote(
      "weights, gradients, state: bytes of them for each parameter that this rank keeps from step to step, "
      "read from the tensors; in theory: these three as published, without padding and buffers. built, "
      "before and after update, peak (`--details`): all memory, with buffers and what backward needs, in "
      "blocks whose sizes the allocator rounds up by at most an eighth. process: what the system counts, if "
      "the process trained this variant alone.");
  table.AddNote(MachinesText(settings));
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
