#include "tools/tables/all_tables.h"
#include "tools/tables/views.h"

// What a rank sends and keeps, beside what it should by theory.
namespace gradsync::tools {
namespace {

auto Million(bench::FactName fact) {
  return [fact](const View& view) { return 1e-6 * Fact(fact)(view); };
}
auto PerParameter(bench::FactName fact) {
  return [fact](const View& view) { return Fact(fact)(view) / Fact("num_parameters")(view); };
}

}  // namespace

void AddMemoryTables(const std::vector<Cell>& cells, std::vector<Table>* tables) {
  std::vector<Field<View>> fields = {
      {{.name = "variant", .audience = Audience::kPeople}, &View::name},
      {{.name = "variant", .audience = Audience::kMachines}, &View::variant},
      {{.name = "step (s)"}, &View::step_s},
      {{.name = "sent (MB)", .digits = 3}, Million("sent_bytes_per_step")},
      {{.name = "in theory (MB)", .digits = 3}, Million("theory_sent_bytes")},
      {{.name = "weights", .digits = 3}, PerParameter("weights_bytes")},
      {{.name = "gradients", .digits = 3}, PerParameter("gradients_bytes")},
      {{.name = "state", .digits = 3}, PerParameter("state_bytes")},
      {{.name = "in theory", .digits = 3}, PerParameter("theory_bytes")},
      {{.name = "built", .digits = 3}, PerParameter("built_bytes")},
      {{.name = "before update", .digits = 3}, PerParameter("before_update_bytes")},
      {{.name = "after update", .digits = 3}, PerParameter("after_update_bytes")},
      {{.name = "peak", .digits = 3}, PerParameter("peak_bytes_in_use")},
      {{.name = "process (MB)", .digits = 3}, Million("peak_resident_bytes")},
      {{.name = "model", .said_once = true}, Text("model")},
      ConfigField("batch_size"),
      ConfigField("seq_len")};
  Append(RunFields(), &fields);
  TableOf<View> table("memory", "What a rank sends in a step, and bytes of its memory for each parameter",
                      std::move(fields));
  for (const Cell& cell : cells) {
    for (const Row& row : cell.rows)
      if (row.facts().Find("built_bytes") != nullptr) table.Add({cell, row});
  }
  if (table.num_rows() == 0) return;
  table.SetDetail();
  table.AddNote(
      "weights, gradients, state: what this rank keeps of them from step to step, read from the tensors; in "
      "theory: these three as published, without padding and buffers. built, before and after update, peak: "
      "all memory of the variant, with buffers and what backward needs, in blocks whose sizes the allocator "
      "rounds up by at most an eighth. process: what the system counts, if the process trained this variant "
      "alone.");
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
