#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_join.h"
#include "comm/factory.h"
#include "comm/process_group.h"
#include "comm/rendezvous/world.h"
#include "model/tensor/device.h"

// Tests that every backend must pass. A test program instantiates them for its backends and numbers of ranks.
namespace gradsync::comm {

struct ConformanceParam {
  std::string backend;
  int size = 1;
  std::function<model::DevicePtr(int rank)> device = [](int) { return model::CpuDevice(); };
  int ranks_per_host = 0;  // see MakeGroups
  BackendOptions options = {};
};

inline std::string ConformanceName(const testing::TestParamInfo<ConformanceParam>& info) {
  const int ranks_per_host = info.param.ranks_per_host;
  return info.param.backend + std::to_string(info.param.size) +
         (ranks_per_host == 0 ? "" : "by" + std::to_string(ranks_per_host)) +
         absl::StrJoin(info.param.options, "",
                       [](std::string* name, const auto& option) { *name += option.second; });
}

class ConformanceTest : public testing::TestWithParam<ConformanceParam> {
 public:
  // Inside OnAllRanks, returns the device of the calling rank's thread; elsewhere the CPU.
  static const model::DevicePtr& here() { return here_; }
  // Set if this process is one rank of a job of several processes; if empty, the ranks are threads of this
  // process.
  static std::optional<World> world;

 protected:
  int size() const { return GetParam().size; }

  static bool ReducesInRankOrder() {
    return GetParam().backend == "local" ||
           comm::TraitsOf(GetParam().backend, GetParam().options).reduces_in_rank_order;
  }

  // Calls body(group) for each of size() ranks, each on its own thread. If `world` is set, calls body(group)
  // only for this process's rank, and not at all if this rank's number is size() or more.
  void OnAllRanks(const std::function<void(ProcessGroup& group)>& body);

 private:
  static thread_local model::DevicePtr here_;
};

}  // namespace gradsync::comm
