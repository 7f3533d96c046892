#include "tools/tables/machines.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_join.h"
#include "model/base/error.h"
#include "model/base/text.h"

namespace gradsync::tools {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// A machine, and what was measured on it.
struct Machine {
  std::string name;
  Interval peak{};  // floating-point operations per second; unknown if no record has them
  std::vector<std::string> places{};
};

std::string NameOf(const bench::Provenance& provenance) {
  if (!provenance.gpu.empty()) return Join(provenance.gpu, ", ", provenance.kernel);
  return Join(provenance.cpu_model, ", ", provenance.cpu_count,
              provenance.cpu_count == 1 ? " CPU, " : " CPUs, ", provenance.kernel);
}

// Returns "; its ranks reach 174 to 181 GFLOP/s"; empty if the peak is unknown.
std::string PeakText(const Interval& peak) {
  if (!peak.is_known()) return "";
  const bool is_large = peak.high >= kTera;
  const double unit = is_large ? kTera : kGiga;
  const std::string low = Significant(peak.low / unit, 3), high = Significant(peak.high / unit, 3);
  return Join("; its ranks reach ", low, low == high ? "" : " to " + high,
              is_large ? " TFLOP/s" : " GFLOP/s");
}

std::vector<Machine> MachinesOf(const std::vector<MeasuredPlace>& places) {
  std::vector<Machine> machines;
  for (const auto& [place, measured] : places) {
    const bench::Provenance& provenance = measured->record.provenance;
    if (measured->is_published() || provenance.kernel.empty()) continue;
    const std::string name = NameOf(provenance);
    auto machine = std::ranges::find(machines, name, &Machine::name);
    if (machine == machines.end()) machine = machines.insert(machine, Machine{.name = name});
    const double peak = measured->record.facts.DoubleOr("peak_flops_per_second", kNaN);
    if (!std::isnan(peak)) machine->peak = machine->peak.With({peak, peak});
    if (std::ranges::count(machine->places, place) == 0) machine->places.push_back(place);
  }
  return machines;
}

}  // namespace

std::string MachinesText(const std::vector<MeasuredPlace>& places) {
  const std::vector<Machine> machines = MachinesOf(places);
  if (machines.empty()) return "";
  if (machines.size() == 1) return Join("Measured on ", machines[0].name, PeakText(machines[0].peak), ".");
  std::vector<std::string> texts;
  for (const Machine& machine : machines)
    texts.push_back(Join(Listed(machine.places), " on ", machine.name, PeakText(machine.peak)));
  return Join("Measured ", absl::StrJoin(texts, "; "), ".");
}

std::string MachinesText(const Settings& settings) {
  std::vector<MeasuredPlace> places;
  for (const NamedSetting& at : settings) {
    for (const Row& row : at.setting->rows) places.emplace_back(at.name, row.measured);
  }
  return MachinesText(places);
}

}  // namespace gradsync::tools
