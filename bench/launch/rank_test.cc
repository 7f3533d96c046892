#include "bench/launch/rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/records/host.h"
#include "bench/records/schema.h"
#include "bench/testing/unreachable_device.h"
#include "comm/processes/host.h"
#include "comm/testing/errors.h"
#include "comm/testing/local_process_group.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"
#include "model/tensor/cuda_device.h"

namespace gradsync::bench {
namespace {

TEST(CountRanksWithTest, CountsEqualTexts) {
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    comm::ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    const model::DevicePtr device = model::CpuDevice();
    const std::string gpu = rank == 1 ? "GPU-1" : "GPU-10";
    EXPECT_EQ(CountRanksWith(group, device, gpu), rank == 1 ? 1 : 2);
    EXPECT_EQ(CountRanksWith(group, device, ""), 3);
    EXPECT_EQ(CountRanksOnGpu(group, device), 0);
  });
}

TEST(BroadcastTextTest, EveryRankGetsTheTextOfRankZero) {
  const std::string long_name = std::string(300, 'x') + ".svc.cluster.local";
  const auto groups = comm::MakeLocalGroups(3);
  comm::RunRanks(3, [&](int rank) {
    comm::ProcessGroup& group = *groups[static_cast<size_t>(rank)];
    for (const std::string& text : {long_name, std::string("a"), std::string(), std::string("\0b", 2)})
      EXPECT_EQ(BroadcastText(group, model::CpuDevice(), rank == 0 ? text : "of another rank"), text);
  });
}

// Texts travel through memory that the host cannot touch.
TEST(RankTest, TextsOnAnotherDevice) {
  const auto group = LoneGroup();
  EXPECT_EQ(BroadcastText(*group, UnreachableDevice(), "20261121T101500-4f2a"), "20261121T101500-4f2a");
  EXPECT_EQ(CountRanksWith(*group, UnreachableDevice(), "GPU-1"), 1);
}

TEST(RankTest, ADeviceThatIsNotThereIsNamedWithItsFlag) {
  if (model::CudaDeviceCount() > 0) GTEST_SKIP() << "there is a GPU";
  RankOptions options;
  options.device = model::Device::Type::kCuda;
  for (const auto& ask : {+[](const RankOptions& o) { MakeDevice(o, {}); },
                          +[](const RankOptions& o) { CheckDevice(o, {}, {}); }}) {
    EXPECT_THAT(comm::ErrorOf<InvalidInput>([&] { ask(options); }),
                testing::ContainsRegex("^--device=cuda: CUDA device 0: .*(no GPU that CUDA can use here \\(|"
                                       "this program was built without CUDA)"));
  }
}

TEST(RankTest, JoinsRecordsReducesAndFails) {
  const comm::TemporaryDirectory meeting, out;
  constexpr char kOverGloo[] = "hierarchical:inner=gloo";
  comm::RunRanks(2, [&](int number) {
    RankOptions options;
    options.out = out.path();
    options.interface_or_address = "lo";
    const char* const program[] = {"program"};
    const comm::World world = {.rank = number,
                               .size = 2,
                               .local_rank = number,
                               .local_size = 2,
                               .rendezvous = "file://" + meeting.path()};
    Rank rank(options, world, 1, program);
    rank.SetBaseCommand({"--width=8", "--corpus=my text"});
    EXPECT_EQ(rank.is_first(), number == 0);
    EXPECT_EQ(rank.Join({"shm", "gloo", "shm", "hierarchical", kOverGloo}).backend(), "shm");
    EXPECT_EQ(rank.Of("gloo").backend(), "gloo");
    EXPECT_EQ(&rank.Of("none"), &rank.own());

    Record record;
    record.experiment = "ddp";
    record.facts.Set("num_tensors", 3);
    rank.SetRecords(std::move(record));
    struct Expected {
      std::string backend, link;
      double limit_per_second;
      int64_t receivers, channels;
    };
    for (const auto& [backend, link, limit_per_second, receivers, channels] :
         {Expected{"shm", "memory", 400e9, 0, 1}, Expected{"gloo", "loopback", 50e9, 1, 2},
          Expected{"none", "memory", 400e9, 0, 1}, Expected{"hierarchical", "memory", 400e9, 0, 1},
          Expected{kOverGloo, "loopback", 50e9, 1, 1}}) {
      const Record& begun = rank.RecordOf(backend);
      EXPECT_EQ(begun.run_id, rank.launch().run_id);
      EXPECT_EQ(begun.rank, number);
      EXPECT_EQ(begun.facts.IntOr("num_tensors", 0), 3);
      EXPECT_EQ(begun.facts.StringOr("boot", ""), comm::BootIdentity());
      EXPECT_EQ(begun.facts.StringOr("denormals", ""), "flushed");
      volatile float smallest = std::numeric_limits<float>::min();
      EXPECT_EQ(smallest / 2, 0) << "a denormal";
      EXPECT_EQ(begun.facts.StringOr("numa_node", ""), NumaNode());
      if (std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
        EXPECT_THAT(begun.facts.StringOr("huge_pages", ""),
                    testing::ContainsRegex("\\[(always|madvise|never)\\]"));
      }
      EXPECT_EQ(begun.facts.Find("governor") != nullptr,
                std::filesystem::exists("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
      EXPECT_EQ(begun.facts.StringOr("launch_set", ""), begun.run_id);
      EXPECT_EQ(begun.link.StringOr("kind", ""), link);
      EXPECT_EQ(begun.link.DoubleOr("limit_bytes_per_second", 0), limit_per_second);
      EXPECT_EQ(begun.facts.IntOr("receivers", -1), receivers);
      EXPECT_EQ(begun.facts.IntOr("channels", -1), channels);
      EXPECT_EQ(begun.provenance.command_line, "program");
      EXPECT_EQ(begun.provenance.base_command, "program --width=8 '--corpus=my text'");
    }
    EXPECT_EQ(rank.writer().path(),
              Join(out.path(), "/ddp.", rank.launch().run_id, ".rank", number, ".jsonl"));

    EXPECT_EQ(rank.Reduce(int64_t{number} + 1, comm::ReduceOp::kSum), 3);
    EXPECT_EQ(rank.Reduce(std::vector<double>{1.0 * number, 5.0 - number}, comm::ReduceOp::kMax),
              (std::vector<double>{1, 5}));
    EXPECT_TRUE(rank.own().entries().empty());

    rank.AddFault("");
    rank.Conclude("");
    rank.AddFault("the first");
    rank.AddFault("the second");
    std::string fault;
    try {
      rank.Conclude("");
    } catch (const std::runtime_error& error) {
      fault = error.what();
    }
    EXPECT_EQ(fault, number == 0 ? "the first" : "");
  });
}

TEST(RankTest, TellsHowOftenAQuotaHasStoppedIt) {
  const comm::TemporaryDirectory groups, out;
  const auto write = [&](const char* name, const char* text) { std::ofstream(groups.path() + name) << text; };
  write("/own", "0::/\n");
  write("/cpu.max", "150000 100000\n");
  write("/cpu.stat", "nr_periods 10\nnr_throttled 4\n");
  RankOptions options;
  options.out = out.path();
  const char* const program[] = {"program"};
  Rank rank(options, {.size = 1, .local_size = 1}, 1, program,
            ControlGroups(groups.path(), groups.path() + "/own"));
  rank.Join({"shm"});
  Record record;
  record.experiment = "ddp";
  rank.SetRecords(record);
  EXPECT_EQ(rank.RecordOf("shm").facts.DoubleOr("cpu_quota", 0), 1.5);
  FactFields facts;
  rank.DescribeThrottling(facts);
  EXPECT_EQ(facts.Find("cpu_periods"), nullptr);
  write("/cpu.stat", "nr_periods 50\nnr_throttled 42\n");
  rank.DescribeThrottling(facts);
  EXPECT_EQ(facts.IntOr("cpu_periods", 0), 40);
  EXPECT_EQ(facts.IntOr("throttled_periods", 0), 38);
}

TEST(OverRanksTest, NumbersAreInTheOrderOfRanks) {
  const auto groups = comm::MakeLocalGroups(2);
  comm::RunRanks(2, [&](int rank) {
    EXPECT_EQ(GatherOverRanks(std::vector<int64_t>{rank, 7 + rank}, *groups[static_cast<size_t>(rank)],
                              model::CpuDevice()),
              (std::vector<int64_t>{0, 7, 1, 8}));
  });
}

TEST(ThreadsPerRankTest, SharesWhatRanksMayUse) {
  const auto threads = [](const std::vector<std::string>& ranks) { return CountThreadsPerRank(ranks); };
  const std::string four = "a 0,1,2,3";
  EXPECT_EQ(threads({four}), 4);
  EXPECT_EQ(threads({four, four}), 2);
  EXPECT_EQ(threads({four, four, four}), 1);
  EXPECT_EQ(threads({four, four, four, four, four}), 1);
  // Bound by their launcher, each to CPUs of its own.
  EXPECT_EQ(threads({"a 0,1", "a 2,3"}), 2);
  // On another machine, with fewer: all ranks compute alike.
  EXPECT_EQ(threads({four, "b 0,1,2"}), 3);
  EXPECT_EQ(threads({"b 0,1,2", four}), 3);
  EXPECT_EQ(threads({four, "b 0,1,2,3"}), 4);
}

TEST(RankTest, RunsOverLinksOfDifferentRatesAreDifferentSettings) {
  const auto rate = [] {
    ConfigFields config;
    RankOptions().Describe(config);
    return config.IntOr("link_rate", -1);
  };
  EXPECT_EQ(rate(), -1);
  setenv("GRADSYNC_LINK_RATE", "200000000", 1);
  EXPECT_EQ(rate(), 200'000'000);
  unsetenv("GRADSYNC_LINK_RATE");
  EXPECT_EQ(ScopeOf("link_rate"), Scope::kSetting);
}

}  // namespace
}  // namespace gradsync::bench
