#include "bench/training/groups.h"

namespace gradsync::bench {

RunGroups::RunGroups(const TrainingOptions& options, const comm::World& world, const model::DevicePtr& device,
                     const ThreadPlacement& placement)
    : options_(options.ranks),
      world_(world),
      device_(device),
      placement_(placement),
      own_(options.GroupBackends().front()) {
  for (const std::string& backend : options.GroupBackends())
    groups_[backend] = JoinGroup(options_, backend, world, device, placement);
}

std::string RunGroups::SetRecords(Record record, const Provenance& provenance) {
  const Launch launch = AgreeOnLaunch(own(), device_);
  record.run_id = launch.run_id;
  record.rank = world_.rank;
  record.world_size = world_.size;
  for (const auto& [backend, group] : groups_) {
    Record& of_group = records_[backend] = record;
    of_group.provenance = provenance;
    SetRankFacts(*group, device_, world_, options_, launch, placement_, of_group);
    group->Clear();
  }
  return record.run_id;
}

}  // namespace gradsync::bench
