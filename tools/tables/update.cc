#include "tools/tables/all_tables.h"
#include "tools/tables/machines.h"
#include "tools/tables/parts/views.h"

// What whole-matrix updates (Muon) cost, and what sharing them saves.
namespace gradsync::tools {
namespace {

// Of a step; with less, what ranks do not compute twice is lost in the rest.
constexpr double kTells = 0.05;

double ShareOf(const View& view) { return view.row.MeanOf("optimizer_ns") / view.row.MeanOf("step_ns"); }

}  // namespace

void AddUpdateTables(const Settings& settings, std::vector<Table>* tables) {
  std::vector<Field<View>> fields = {
      {{.name = "variant", .audience = Audience::kPeople}, &View::name},
      {{.name = "variant", .audience = Audience::kMachines}, &View::variant},
      {{.name = "step (s)"}, &View::step_s},
      {{.name = "delta (%)", .kind = Kind::kPercent, .header = "delta (%)"}, &View::delta_percent},
      {{.name = "update (s)", .digits = 3}, MeanTime("optimizer_ns")},
      {{.name = "of the step", .kind = Kind::kFraction}, ShareOf},
      {{.name = "tells"},
       [](const View& view) { return std::string(ShareOf(view) < kTells ? "no" : "yes"); }},
      {{.name = "largest work", .digits = 3}, Fact("largest_work")},
      {{.name = "sent (MB)", .digits = 4}, Million("sent_bytes_per_step")},
      {{.name = "in theory (MB)", .digits = 4}, Million("theory_sent_bytes")},
      {{.name = "memory (B/param)", .kind = Kind::kPlain}, &View::peak_bytes_per_parameter}};
  TableOf<View> table("update", "Updates of whole matrices", std::move(fields));
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows)
      if (row.config().StringOr("optimizer", "") == "muon" && row.facts().Find("built_bytes") != nullptr)
        table.Add({at, row});
  }
  if (table.num_rows() == 0) return;
  table.AddNote(
      "update: the time of the optimizer in a step, without waits. of the step: its part of the step. tells: "
      "`no` "
      "if the part is below 5 %, because updates then do not separate the variants. largest work: the "
      "multiplications of the rank with the most, divided by the mean over ranks. sent: bytes with padding; "
      "in "
      "theory: without padding. memory: the peak.");
  table.AddNote(MachinesText(settings));
  tables->push_back(std::move(table));
}

}  // namespace gradsync::tools
