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

// Conformance tests for every backend. A test program instantiates the suite for its backends and world
// sizes.
namespace gradsync::comm {

struct ConformanceParam {
  std::string backend;
  int size = 1;
  // Makes a rank's device.
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
  // Returns the device of the calling rank's thread; the CPU outside of OnAllRanks.
  static const model::DevicePtr& here() { return here_; }
  // The world, if this process is a rank of a joined job. Then OnAllRanks calls body once. Without a world,
  // ranks are threads.
  static std::optional<World> world;

 protected:
  int size() const { return GetParam().size; }

  // Returns whether the backend reduces in rank order: see comm/factory.h.
  static bool ReducesInRankOrder() {
    return GetParam().backend == "local" ||
           comm::TraitsOf(GetParam().backend, GetParam().options).reduces_in_rank_order;
  }

  // Calls body(group) on every rank's thread, or as this process's rank.
  void OnAllRanks(const std::function<void(ProcessGroup& group)>& body);

 private:
  static thread_local model::DevicePtr here_;
};

}  // namespace gradsync::comm
