#include "bench/launch/rank.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/launch/link.h"
#include "bench/records/provenance.h"
#include "bench/timing/phase_timer.h"
#include "comm/factory.h"
#include "comm/processes/host.h"
#include "model/base/units.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {

LaunchId ThisLaunch() {
  const char* const text = std::getenv(kLaunchVariable);
  if (text == nullptr || *text == '\0') return {};
  constexpr int64_t kMaxLaunches = 1'000'000;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const int64_t index = ParseInteger(parts.back()).value_or(-1);
  Require(parts.size() == 2 && !parts[0].empty() && index >= 0 && index < kMaxLaunches, kLaunchVariable,
          " is '", text, "', expected a name for several launches and this one's number, such as monday,0");
  return {.set = parts[0], .index = index};
}

void SetLaunch(const std::string& set, int64_t index) {
  setenv(kLaunchVariable, LaunchId{.set = set, .index = index}.text().c_str(), 1);
}

Rank::Rank(const RankOptions& options, const comm::World& world, int argc, const char* const* argv,
           ControlGroups control_groups)
    : options_(options),
      world_(world),
      provenance_(CollectProvenance(argc, argv)),
      device_(MakeDevice(options, world)),
      control_groups_(std::move(control_groups)) {
  model::FlushDenormals();
}

void Rank::SetBaseCommand(const std::vector<std::string>& flags) {
  provenance_.base_command = provenance_.command_line.substr(0, provenance_.command_line.find(' '));
  for (const std::string& flag : flags) provenance_.base_command += " " + Quoted(flag);
}

comm::RecordingProcessGroup& Rank::Join(const std::vector<std::string>& backends) {
  own_ = backends.front();
  for (const std::string& backend : backends) {
    if (Has(backend)) continue;
    const Variant over = Variant::Parse("@" + backend);
    groups_[backend] = std::make_unique<comm::RecordingProcessGroup>(
        comm::MakeProcessGroup({.backend = over.backend,
                                .backend_options = over.backend_options,
                                .world = world_,
                                .timeout = options_.timeout,
                                .num_threads = static_cast<int>(options_.comm_threads),
                                .interface_or_address = options_.interface_or_address},
                               device_));
  }
  const auto has_interface = [](const auto& group) { return !group.second->facts().interface.empty(); };
  Require(options_.interface_or_address.empty() || std::ranges::any_of(groups_, has_interface),
          "--interface=", options_.interface_or_address,
          ": no backend here sends over a network: ", absl::StrJoin(backends, ", "));
  return own();
}

void Rank::SetRecords(Record record) {
  periods_before_ = control_groups_.CpuPeriods();
  launch_ = ThisLaunch();
  // Under a launcher the user names a set, and may repeat its first launch.
  const bool is_of_set = launch_.index == 0 && !launch_.set.empty() && world_.launched_by_self();
  launch_.run_id = BroadcastText(own(), device_, !is_first() ? "" : is_of_set ? launch_.set : NewRunId());
  if (launch_.set.empty()) launch_.set = launch_.run_id;
  out_ = options_.OutputDirectory(gradsync::Join(record.experiment, "-", launch_.set));
  record.run_id = launch_.run_id;
  record.rank = world_.rank;
  record.world_size = world_.size;
  options_.Describe(record.config);
  record.config.Set("seed", seed());
  for (const auto& [backend, group] : groups_) {
    Record& of_group = records_[backend] = record;
    of_group.provenance = provenance_;
    SetFacts(*group, of_group);
    group->Clear();
  }
  writer_.emplace(out_, record.experiment, launch_.run_id, world_.rank);
}

void Rank::DescribeThrottling(FactFields& facts) const {
  const ControlGroups::Periods now = control_groups_.CpuPeriods();
  if (now.all == periods_before_.all) return;
  facts.Set("cpu_periods", now.all - periods_before_.all);
  facts.Set("throttled_periods", now.throttled - periods_before_.throttled);
}

void Rank::SetFacts(comm::RecordingProcessGroup& group, Record& record) const {
  FactFields& facts = record.facts;
  facts.Set("launch_set", launch_.set);
  facts.Set("launch", launch_.index);
  facts.Set("launches", options_.num_launches());
  if (options_.choose) facts.Set("stage", launch_.index == 0 ? "choosing" : "deciding");
  record.link = DescribeLink(group);
  facts.Set("launcher", world_.launcher);
  facts.Set("boot", comm::BootIdentity());
  const comm::GroupFacts of_group = group.facts();
  facts.Set("channels", of_group.channels);
  facts.Set("receivers", of_group.receivers);
  for (const auto& [name, value] : of_group.more) facts.Set(FactName::Of(name), value);
  record.provenance.clock = ClockName(*device_);
  if (!device_->is_cpu()) {
    const auto& gpu = model::CudaDevice::Of(*device_, "record");
    facts.Set("gpu_uuid", gpu.uuid());
    facts.Set("ranks_per_gpu", CountRanksOnGpu(group, device_));
    record.provenance.gpu = gpu.product_name();
    record.provenance.libraries.Set("cuda_runtime", model::CudaRuntimeVersion());
    record.provenance.libraries.Set("cuda_driver", model::CudaDriverVersion());
    for (const auto& [name, version] : comm::BackendLibraries())
      record.provenance.libraries.Set(name, version);
  }
  facts.Set("denormals", "flushed");
  const auto set_if_known = [&](FactName name, const std::string& value) {
    if (!value.empty()) facts.Set(name, value);
  };
  set_if_known("numa_node", NumaNode());
  set_if_known("huge_pages", ReadEntry("/sys/kernel/mm/transparent_hugepage/enabled", "", "\n"));
  set_if_known("governor", ReadEntry("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", "\n"));
  if (const double quota = control_groups_.CpuQuota(); std::isfinite(quota))
    facts.Set("cpu_quota", Value(quota));
  facts.Set("allowed_cpus", absl::StrJoin(AllowedCpus(), ","));
}

void Rank::Print(const std::string& text) const {
  if (!is_first()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Rank::Conclude(const std::string& text) {
  own().Barrier();
  progress_.reset();
  Print(text);
  if (is_first() && !fault_.empty()) throw std::runtime_error(fault_);
}

}  // namespace gradsync::bench
