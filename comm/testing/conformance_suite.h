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

// Tests of process groups that every backend must pass. Each test program that links the tests instantiates
// them for backends and numbers of ranks of its choice.
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
  // Returns the device of the rank that runs on the calling thread, or the CPU if no rank does.
  static const model::DevicePtr& here() { return here_; }
  // If this process is one rank of a job of several processes, that job's world; if empty, all ranks are
  // threads of this process.
  static std::optional<World> world;

 protected:
  int size() const { return GetParam().size; }

  static bool ReducesInRankOrder() {
    return GetParam().backend == "local" ||
           comm::TraitsOf(GetParam().backend, GetParam().options).reduces_in_rank_order;
  }

  // Makes the process group of size() ranks that the test parameter describes, and starts a thread for each
  // rank, which calls body(group). If the static member `world` is set, OnAllRanks calls body(group) only for
  // this process's rank, on the calling thread, and not at all if this rank's number is size() or more.
  void OnAllRanks(const std::function<void(ProcessGroup& group)>& body);

 private:
  static thread_local model::DevicePtr here_;
};

}  // namespace gradsync::comm
