#ifndef GRADSYNC_BENCH_TRAINING_GROUPS_H_
#define GRADSYNC_BENCH_TRAINING_GROUPS_H_

#include <map>
#include <memory>
#include <string>

#include "bench/launch/rank_main.h"
#include "bench/records/record.h"
#include "bench/training/options.h"
#include "comm/queue/recording_process_group.h"
#include "comm/rendezvous/world.h"
#include "model/device.h"

namespace gradsync::bench {

// This rank's groups, one for each backend that variants communicate over, and what their records begin with.
class RunGroups {
 public:
  // Joins them; all ranks call. What is given by reference must outlive it.
  RunGroups(const TrainingOptions& options, const comm::World& world, const model::DevicePtr& device,
            const ThreadPlacement& placement);

  // That of the first backend, which also carries the run's own business.
  comm::RecordingProcessGroup& own() const { return *groups_.at(own_); }
  // A variant's; the run's own for one that never communicates.
  comm::RecordingProcessGroup& Of(const Variant& variant) const { return *groups_.at(BackendOf(variant)); }
  bool Has(const std::string& backend) const { return groups_.contains(backend); }

  // `record`: of what kind they are, and the facts that all have. All ranks call. Returns the run's name.
  std::string SetRecords(Record record, const Provenance& provenance);
  // A variant's. After SetRecords.
  const Record& RecordOf(const Variant& variant) const { return records_.at(BackendOf(variant)); }

 private:
  const std::string& BackendOf(const Variant& variant) const {
    return Has(variant.backend) ? variant.backend : own_;
  }

  const RankOptions& options_;
  const comm::World& world_;
  const model::DevicePtr device_;
  const ThreadPlacement& placement_;
  const std::string own_;
  std::map<std::string, std::unique_ptr<comm::RecordingProcessGroup>> groups_;  // by backend
  std::map<std::string, Record> records_;                                       // likewise
};

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_TRAINING_GROUPS_H_
