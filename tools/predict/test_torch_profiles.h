#ifndef GRADSYNC_TOOLS_PREDICT_TEST_TORCH_PROFILES_H_
#define GRADSYNC_TOOLS_PREDICT_TEST_TORCH_PROFILES_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/predict/torch_profile.h"

namespace gradsync::tools {

// A launch of record.py in round numbers: two ranks, parameters of 1, 2 and 1 MiB that are ready in
// reverse order, after 10, 30 and 40 ms of a backward of 40 ms; forward 20 ms, optimizer 6, clipping 1
// (`none`: 19, 38, 5, 1). An all-reduce takes 10 ms a MiB alone and 8 as one of two, and no processor's time;
// in bf16 12 ms for each MiB that it computes with, 1 to cast and 1 to cast back. ZeroRedundancyOptimizer's
// broadcasts take 30 ms. DDP itself takes 90 ms.
inline nlohmann::json TestTorchLaunch() {
  using nlohmann::json;
  constexpr int64_t kMs = 1'000'000, kMiB = 1 << 20;
  const auto step = [&](const char* mode, int64_t before, int64_t backward, int64_t optimizer) {
    return json{{"mode", mode},
                {"begin_ns", 0},
                {"before_ns", before * kMs},
                {"backward_ns", backward * kMs},
                {"ready_ns", {backward * kMs, 30 * kMs, 10 * kMs}},
                {"rest_ns", kMs},
                {"optimizer_ns", optimizer * kMs},
                {"step_ns", (before + backward + 1 + optimizer) * kMs}};
  };
  const auto probe = [&](const char* kind, int in_flight, const json& bytes, int64_t each_ms, int64_t wall_ms,
                         bool casts) {
    json with = step("probe", 20, 40, 6);
    json& sent = with["collectives"] =
        json{{"kind", kind},        {"in_flight", in_flight},   {"bytes", bytes},
             {"ns", json::array()}, {"wall_ns", wall_ms * kMs}, {"cpu_ns", 0}};
    for (size_t i = 0; in_flight == 1 && i < bytes.size(); ++i) sent["ns"].push_back(each_ms * kMs);
    if (casts) sent["in_ns"] = sent["out_ns"] = json::array({kMs, kMs, kMs, kMs});
    return with;
  };
  const json mib = {kMiB, kMiB, kMiB, kMiB};
  json steps = json::array();
  for (int round = 0; round < 12; ++round) {
    json ddp = {{"mode", "ddp"}, {"row", 0}, {"begin_ns", 0}, {"step_ns", 90 * kMs}};
    for (const json& one :
         {step("none", 19, 38, 5), probe("all_reduce", 1, mib, 10, 40, false),
          probe("all_reduce", 1, {4 * kMiB}, 40, 40, false), probe("all_reduce", 0, mib, 0, 32, false),
          probe("bf16", 1, mib, 12, 56, true), probe("zero1", 0, {kMiB, 2 * kMiB, kMiB}, 0, 30, false), ddp})
      steps.push_back(one);
  }
  const auto parameter = [&](const char* name, int64_t mebi) {
    return json{{"name", name}, {"numel", mebi * kMiB / 4}, {"bytes", mebi * kMiB}};
  };
  return {{"gradsync_torch", 1},
          {"time", "2026-11-24T10:00:00"},
          {"torch", "2.15.0"},
          {"device", "cpu"},
          {"backend", "gloo"},
          {"world_size", 2},
          {"hosts", {"a", "a"}},
          {"threads", 1},
          {"cores", 2},
          {"optimizer", "SGD"},
          {"passes", 1},
          {"views", true},
          {"parameters", {parameter("a", 1), parameter("b", 2), parameter("c", 1)}},
          {"rows", json::array({{{"name", "as the script has it"},
                                 {"bucket_bytes", 25 * kMiB},
                                 {"first_bucket_bytes", kMiB},
                                 {"bf16", false},
                                 {"zero1", false},
                                 {"passes", 1},
                                 {"rebuilt_bucket_bytes", {kMiB, 3 * kMiB}}}})},
          {"ranks", {steps, steps}}};
}

inline void ForEachStep(nlohmann::json* launch, const std::string& mode,
                        const std::function<void(nlohmann::json&)>& change) {
  for (nlohmann::json& rank : (*launch)["ranks"]) {
    for (nlohmann::json& step : rank) {
      if (step["mode"] == mode) change(step);
    }
  }
}

inline TorchProfile ProfileOf(const std::vector<nlohmann::json>& launches) {
  std::stringstream lines;
  for (const nlohmann::json& launch : launches) lines << launch.dump() << "\n";
  return TorchProfile(lines, "FILE");
}

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_TEST_TORCH_PROFILES_H_
