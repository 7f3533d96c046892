#include "comm/factory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "comm/rendezvous/job.h"
#include "comm/testing/errors.h"
#include "comm/testing/rank_threads.h"
#include "model/base/error.h"
#include "model/tensor/tensor.h"

namespace gradsync::comm {
namespace {

TEST(FactoryTest, MakesWhatItNames) {
  for (const std::string& name : BackendNames()) {
    if (std::ranges::count(ThreadBackends(), name) == 0) continue;
    EXPECT_EQ(MakeGroups(name, 1)[0]->backend(), name);
  }
  const auto group =
      MakeProcessGroup({.backend = "gloo", .world = {}, .interface_or_address = {}}, model::CpuDevice());
  EXPECT_EQ(group->backend(), "gloo");
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->facts().channels, 2);
  EXPECT_EQ(group->facts().receivers, 0) << "there is nobody to receive from";
  group->Barrier();
}

std::string MakeError(const std::string& backend) {
  return ErrorOf<InvalidInput>([&] {
    MakeProcessGroup({.backend = backend, .world = {}, .interface_or_address = {}}, model::CpuDevice());
  });
}

TEST(FactoryTest, NamesTheBackendsItKnows) {
  EXPECT_EQ(MakeError("tcp"), "backend is 'tcp', expected one of: " + absl::StrJoin(BackendNames(), ", "));
}

TEST(FactoryTest, NcclNeedsAGpu) {
  EXPECT_EQ(MakeError("nccl"), "backend nccl: device is cpu, expected cuda (--device=cuda)");
}

std::string CheckError(const std::string& backend, model::Device::Type device, const World& world) {
  return ErrorOf<InvalidInput>([&] { CheckBackend(backend, {}, device, world); });
}

TEST(FactoryTest, MpiNeedsALauncherThatOpenMpiKnows) {
  EXPECT_TRUE(TraitsOf("mpi").needs_mpirun);
  EXPECT_TRUE(TraitsOf("hierarchical", {{"outer", "mpi"}}).needs_mpirun);
  EXPECT_FALSE(TraitsOf("hierarchical", {{"outer", "gloo"}}).needs_mpirun);
  World world;
  world.launcher = "torchrun";
  const std::string error = CheckError("mpi", model::Device::Type::kCpu, world);
  EXPECT_TRUE(error == "backend mpi: torchrun started the ranks, expected mpirun or srun" ||
              error.starts_with("backend mpi: this program was built without Open MPI"))
      << error;
}

TEST(FactoryTest, KnowsWhoAddsInTheOrderOfRanks) {
  for (const std::string backend : {"gloo", "shm", "hierarchical"})
    EXPECT_TRUE(TraitsOf(backend).reduces_in_rank_order);
  for (const std::string backend : {"gloo_own", "mpi", "nccl"})
    EXPECT_FALSE(TraitsOf(backend).reduces_in_rank_order);
  EXPECT_FALSE(TraitsOf("hierarchical", {{"outer", "mpi"}}).reduces_in_rank_order);
  EXPECT_FALSE(TraitsOf("hierarchical", {{"inner", "mpi"}}).reduces_in_rank_order);
  EXPECT_TRUE(TraitsOf("hierarchical", {{"inner", "gloo"}}).reduces_in_rank_order);
}

// As far as options say: of hierarchical it is the inner backend, which is shm by default.
TEST(FactoryTest, KnowsWhoHasMemoryInCommon) {
  EXPECT_TRUE(TraitsOf("shm").shares_memory && TraitsOf("shm").is_within_host);
  EXPECT_TRUE(TraitsOf("hierarchical").shares_memory);
  EXPECT_FALSE(TraitsOf("hierarchical").is_within_host);
  EXPECT_FALSE(TraitsOf("hierarchical", {{"inner", "gloo"}}).shares_memory);
  for (const std::string backend : {"gloo", "gloo_own", "mpi", "nccl"})
    EXPECT_FALSE(TraitsOf(backend).shares_memory || TraitsOf(backend).is_within_host);
}

TEST(FactoryTest, KnowsWhoReducesWithinHosts) {
  EXPECT_TRUE(TraitsOf("hierarchical").has_host_groups);
  EXPECT_EQ(RanksPerHost("hierarchical"), 2) << "suites run it on two hosts";
  EXPECT_FALSE(TraitsOf("gloo").has_host_groups || TraitsOf("shm").has_host_groups);
}

TEST(FactoryTest, KnowsWhoRunsCollectivesOnThreads) {
  EXPECT_TRUE(TraitsOf("gloo").has_threads && TraitsOf("hierarchical").has_threads);
  EXPECT_FALSE(TraitsOf("shm").has_threads || TraitsOf("nccl").has_threads);
}

TEST(FactoryTest, ShmIsForTensorsOfTheCpu) {
  for (const std::string backend : {"shm", "hierarchical"}) {
    EXPECT_EQ(CheckError(backend, model::Device::Type::kCuda, {}),
              "backend " + backend + ": device is cuda, expected cpu");
  }
}

std::string RanksPerGpuError(int local_size, int num_gpus, bool share_gpu,
                             const std::string& launcher = "self") {
  World world;
  world.local_size = local_size;
  world.launcher = launcher;
  return ErrorOf<InvalidInput>([&] { CheckRanksPerGpu(world, num_gpus, share_gpu); });
}

TEST(FactoryTest, NcclNeedsAGpuForEachRank) {
  EXPECT_EQ(RanksPerGpuError(8, 8, false), "no error");
  EXPECT_EQ(RanksPerGpuError(2, 1, true), "no error");
  EXPECT_EQ(RanksPerGpuError(3, 2, false),
            "backend nccl: 3 ranks on this host, which has 2 GPUs, expected at most one rank per GPU "
            "(GRADSYNC_NCCL_SHARE_GPU=1 lets ranks share GPUs, to test function only)");
  EXPECT_EQ(RanksPerGpuError(2, 1, false).find("backend nccl: 2 ranks on this host, which has 1 GPU, "), 0u);
}

// srun --gpus-per-task=1 shows each rank one GPU, its own.
TEST(FactoryTest, ALauncherMayHandOutGpusOneByOne) {
  EXPECT_EQ(RanksPerGpuError(8, 1, false, "srun"), "no error");
  EXPECT_EQ(
      RanksPerGpuError(8, 4, false, "srun").find("backend nccl: 8 ranks on this host, which has 4 GPUs"), 0u);
  EXPECT_EQ(
      RanksPerGpuError(8, 1, false, "none").find("backend nccl: 8 ranks on this host, which has 1 GPU, "),
      0u);
}

// All groups are of one job, and collectives of all of them are in flight at the same time.
TEST(FactoryTest, ARunMayUseSeveralGroups) {
  for (const bool is_one_host : {true, false}) {
    if (!is_one_host && OuterAddress().empty()) continue;
    std::vector<std::string> backends = {"gloo", "hierarchical", "gloo"};
    if (is_one_host) backends.insert(backends.begin() + 1, "shm");
    const TemporaryDirectory directory;
    RunRanks(4, [&](int rank) {
      World world{.rank = rank, .size = 4, .local_size = 4, .rendezvous = "file://" + directory.path()};
      if (!is_one_host) world.host = "host" + std::to_string(rank / 2);
      world = JoinJob(world, {}, std::chrono::seconds(60));
      std::vector<std::unique_ptr<ProcessGroup>> groups;
      for (const std::string& backend : backends) {
        groups.push_back(MakeProcessGroup({.backend = backend, .world = world, .interface_or_address = {}},
                                          model::CpuDevice()));
      }
      for (int step = 0; step < 3; ++step) {
        std::vector<model::Tensor> tensors;
        std::vector<Work> works;
        for (size_t i = 0; i < groups.size(); ++i) {
          tensors.push_back(groups[i]->Allocate(model::CpuDevice(), {1000}, model::DType::kF32));
          std::fill_n(tensors[i].data<float>(), 1000, static_cast<float>(rank + 1) * (i + 1));
          works.push_back(groups[i]->AllReduce(tensors[i], ReduceOp::kSum));
        }
        for (size_t i = 0; i < groups.size(); ++i) {
          works[i].Wait();
          EXPECT_EQ(tensors[i].data<float>()[999], 10 * static_cast<float>(i + 1)) << backends[i];
        }
      }
    });
  }
}

// Each with another number of groups before it; in messages ranks keep their numbers.
TEST(FactoryTest, SomeRanksCanBeAGroup) {
  for (const std::string backend : {"gloo", "shm", "hierarchical"}) {
    const TemporaryDirectory directory;
    RunRanks(4, [&](int rank) {
      const World started{
          .rank = rank, .size = 4, .local_size = 4, .rendezvous = "file://" + directory.path()};
      const World all = JoinJob(started, {}, std::chrono::seconds(60));
      const auto group_of = [&](const World& world) {
        return MakeProcessGroup({.backend = backend, .world = world, .interface_or_address = {}},
                                model::CpuDevice());
      };
      const auto sum_of = [&](ProcessGroup& part) {
        const auto tensor = model::Tensor::From<int32_t>(model::CpuDevice(), {1}, {{1 << rank}});
        part.AllReduce(tensor, ReduceOp::kSum).Wait();
        return tensor.ToVector<int32_t>()[0];
      };
      const auto group = group_of(all);
      if (rank % 2 == 1) {
        const World odd_world = PartOf(all, {1, 3});
        const auto odd = group_of(odd_world);
        EXPECT_EQ(odd->rank(), rank / 2);
        EXPECT_EQ(odd->size(), 2);
        EXPECT_EQ(sum_of(*odd), 2 + 8);
        EXPECT_EQ(sum_of(*group_of(PartOf(odd_world, {rank / 2}))), 1 << rank) << "one rank alone";
      }
      if (rank > 0) {
        EXPECT_EQ(sum_of(*group_of(PartOf(all, {1, 2, 3}))), 2 + 4 + 8);
      }
      EXPECT_EQ(sum_of(*group), 1 + 2 + 4 + 8);
      EXPECT_EQ(ErrorOf<InvalidInput>([&] { PartOf(all, {(rank + 1) % 4}); }),
                Join("members are ", (rank + 1) % 4,
                     ", expected ranks of a world of 4 in rising order with rank ", rank, " among them"));
      EXPECT_THROW(PartOf(all, {3, 2, 1, 0}), InvalidInput);
      group->Barrier();
    });
  }
}

// Only one backend reduces within a host; on one host all ranks are its ranks.
TEST(FactoryTest, RanksOfAHostAreAGroupOfHierarchicalAlone) {
  for (const bool is_one_host : {true, false}) {
    if (!is_one_host && OuterAddress().empty()) GTEST_SKIP() << "this machine has no network";
    const TemporaryDirectory directory;
    RunRanks(4, [&](int rank) {
      World world{.rank = rank, .size = 4, .local_size = 0, .rendezvous = "file://" + directory.path()};
      if (!is_one_host) world.host = Join("host", rank / 2);
      world = JoinJob(world, {}, std::chrono::seconds(60));
      const auto make = [&](const std::string& backend) {
        return MakeProcessGroup({.backend = backend, .world = world, .interface_or_address = {}},
                                model::CpuDevice());
      };
      const auto gloo = make("gloo"), hierarchical = make("hierarchical");
      const auto* const host = hierarchical->host_group();
      EXPECT_EQ(host == nullptr ? 0 : host->size(), is_one_host ? 0 : 2);
      const auto shared = hierarchical->AllocateShared(model::CpuDevice(), {1}, model::DType::kF32);
      EXPECT_EQ(shared.defined(), is_one_host);
      const std::string refusal = ErrorOf<InvalidInput>([&] { gloo->host_group(); });
      EXPECT_EQ(refusal, is_one_host
                             ? "no error"
                             : "backend gloo: reduces nothing within a host, and not all ranks are on "
                               "one; expected backend hierarchical");
      hierarchical->Barrier();
    });
  }
}

TEST(FactoryTest, OneRankHasNoGroupOfItsHost) {
  for (const std::string backend : {"gloo", "shm", "hierarchical"}) {
    const TemporaryDirectory directory;
    const World world =
        JoinJob({.rank = 0, .size = 1, .local_size = 0, .rendezvous = "file://" + directory.path()}, {},
                std::chrono::seconds(60));
    const auto group = MakeProcessGroup({.backend = backend, .world = world, .interface_or_address = {}},
                                        model::CpuDevice());
    EXPECT_EQ(group->host_group(), nullptr) << backend;
  }
}

TEST(FactoryTest, OptionsOfABackendAreChecked) {
  const auto error_of = [](const std::string& backend, const BackendOptions& options) {
    return ErrorOf<InvalidInput>([&] { CheckBackendOptions(backend, options); });
  };
  EXPECT_EQ(error_of("hierarchical", {{"inner", "gloo"}, {"outer", "gloo_own"}}), "no error");
  EXPECT_EQ(error_of("gloo", {{"inner", "shm"}}), "backend gloo has no option 'inner'");
  EXPECT_EQ(error_of("hierarchical", {{"inner", "nccl"}}),
            "backend hierarchical: inner is 'nccl', expected one of: shm, gloo, mpi");
}

}  // namespace
}  // namespace gradsync::comm
