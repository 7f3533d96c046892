#include "comm/rendezvous/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/rendezvous/network.h"
#include "comm/testing/errors.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<World> Read(const Variables& variables) {
  return WorldFromEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional<std::string>(it->second);
  });
}

std::string ReadError(const Variables& variables) {
  return ErrorOf<InvalidInput>([&] { Read(variables); });
}

void ExpectWorld(const std::optional<World>& world, const World& expected) {
  ASSERT_TRUE(world.has_value());
  EXPECT_EQ(world->rank, expected.rank);
  EXPECT_EQ(world->size, expected.size);
  EXPECT_EQ(world->local_rank, expected.local_rank);
  EXPECT_EQ(world->local_size, expected.local_size);
  EXPECT_EQ(world->rendezvous, expected.rendezvous);
  EXPECT_EQ(world->launcher, expected.launcher);
}

TEST(WorldTest, NobodyLaunched) {
  EXPECT_FALSE(Read({}).has_value());
  EXPECT_FALSE(Read({{"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}}).has_value());
}

// As Slurm 22.05 sets them.
TEST(WorldTest, AShellOfSlurmIsNoRank) {
  const Variables batch = {{"SLURM_JOB_ID", "17"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_FALSE(Read(batch).has_value());
  Variables of_two = batch;  // sbatch -n 2
  of_two["SLURM_NTASKS"] = "2";
  EXPECT_FALSE(Read(of_two).has_value());
  Variables salloc = of_two;
  salloc["SLURM_STEP_ID"] = "4294967290";
  salloc["SLURM_STEP_NUM_TASKS"] = "1";
  EXPECT_FALSE(Read(salloc).has_value());
  Variables pty = batch;  // srun --pty
  pty.merge(Variables{{"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(Read(pty).has_value());
  pty.merge(Variables{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});  // srun --mpi=pmi2 --pty
  EXPECT_FALSE(Read(pty).has_value());
  // What starts ranks from there is asked as ever.
  pty.merge(Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(Read(pty)->launcher, "torchrun");
  EXPECT_EQ(Read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})->launcher, "mpirun or srun");
}

TEST(WorldTest, Self) {
  ExpectWorld(Read({{"GRADSYNC_RANK", "2"},
                    {"GRADSYNC_WORLD_SIZE", "3"},
                    {"GRADSYNC_LOCAL_RANK", "2"},
                    {"GRADSYNC_LOCAL_WORLD_SIZE", "3"},
                    {"GRADSYNC_RENDEZVOUS", "file:///tmp/x"}}),
              {2, 3, 2, 3, "file:///tmp/x", "self"});
}

TEST(WorldTest, SelfWinsOverTheLauncherAround) {
  ExpectWorld(Read({{"GRADSYNC_RANK", "1"},
                    {"GRADSYNC_WORLD_SIZE", "2"},
                    {"GRADSYNC_RENDEZVOUS", "file:///tmp/x"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "2"}}),
              {1, 2, 1, 0, "file:///tmp/x", "self"});
}

TEST(WorldTest, TorchrunMeetsBesideItsStore) {
  ExpectWorld(Read({{"RANK", "5"},
                    {"WORLD_SIZE", "8"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "4"},
                    {"MASTER_ADDR", "10.0.0.1"},
                    {"MASTER_PORT", "29500"}}),
              {5, 8, 1, 4, "tcp://10.0.0.1:29501", "torchrun"});
}

TEST(WorldTest, MasterMayBeAnIpv6Address) {
  EXPECT_EQ(Read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fe80::1"}, {"MASTER_PORT", "1000"}})
                ->rendezvous,
            "tcp://[fe80::1]:1001");
}

TEST(WorldTest, OpenMpi) {
  ExpectWorld(Read({{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "4"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                    {"GRADSYNC_RENDEZVOUS", "tcp://node0:4000"}}),
              {1, 4, 1, 2, "tcp://node0:4000", "mpirun"});
}

TEST(WorldTest, Mpich) {
  ExpectWorld(Read({{"PMI_RANK", "3"},
                    {"PMI_SIZE", "4"},
                    {"MPI_LOCALRANKID", "1"},
                    {"MPI_LOCALNRANKS", "2"},
                    {"MASTER_ADDR", "node0"},
                    {"MASTER_PORT", "4000"}}),
              {3, 4, 1, 2, "tcp://node0:4001", "mpirun or srun"});
}

TEST(WorldTest, Srun) {
  ExpectWorld(Read({{"SLURM_PROCID", "3"},
                    {"SLURM_NTASKS", "8"},  // of the job, in a step of four
                    {"SLURM_STEP_NUM_TASKS", "4"},
                    {"SLURM_LOCALID", "1"},
                    {"GRADSYNC_RENDEZVOUS", "file:///nfs/run7"}}),
              {3, 4, 1, 0, "file:///nfs/run7", "srun"});  // how many there are on its host it does not say
}

std::string JobNameOf(Variables variables) {
  variables.merge(Variables{{"GRADSYNC_RENDEZVOUS", "file:///x"}});
  return Read(variables)->job_name;
}

TEST(WorldTest, TheJobHasTheLaunchersName) {
  const Variables torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "17"}};
  EXPECT_EQ(JobNameOf(torchrun), "17");
  EXPECT_EQ(JobNameOf({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "none"}}), "");
  EXPECT_EQ(JobNameOf({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(JobNameOf({{"SLURM_PROCID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_JOB_ID", "1234"},
                       {"SLURM_STEP_ID", "5"}}),
            "1234.5");
  EXPECT_EQ(
      JobNameOf(
          {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "prterun-1@2"}}),
      "prterun-1@2");
  Variables named = torchrun;
  named["GRADSYNC_JOB"] = "mine";
  EXPECT_EQ(JobNameOf(named), "mine");
}

TEST(WorldTest, AnAttemptHasANameOfItsOwn) {
  Variables torchrun = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RESTART_COUNT", "0"}};
  EXPECT_EQ(JobNameOf(torchrun), "");
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "2";
  EXPECT_EQ(JobNameOf(torchrun), ".restart2");
  torchrun["GRADSYNC_JOB"] = "mine";
  EXPECT_EQ(JobNameOf(torchrun), "mine.restart2");
  EXPECT_EQ(JobNameOf({{"SLURM_PROCID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_JOB_ID", "1234"},
                       {"SLURM_STEP_ID", "5"},
                       {"SLURM_RESTART_COUNT", "1"}}),
            "1234.5.restart1");
  // srun --mpi=pmi2
  EXPECT_EQ(JobNameOf({{"PMI_RANK", "0"},
                       {"PMI_SIZE", "2"},
                       {"SLURM_PROCID", "0"},
                       {"SLURM_JOB_ID", "1234"},
                       {"SLURM_STEP_ID", "5"},
                       {"SLURM_RESTART_COUNT", "1"}}),
            "1234.5.restart1");
}

TEST(WorldTest, RanksOfMpirunMeetInItsOwnDirectoryIfTheyAreOnOneHost) {
  Variables mpirun = {{"OMPI_COMM_WORLD_RANK", "0"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                      {"PMIX_SERVER_TMPDIR", "/tmp/of_job"}};
  EXPECT_EQ(Read(mpirun)->rendezvous, "file:///tmp/of_job/gradsync");
  mpirun["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THAT(ReadError(mpirun),
              testing::StartsWith("GRADSYNC_RENDEZVOUS is not set: mpirun started 2 ranks"));
  mpirun["GRADSYNC_RENDEZVOUS"] = "tcp://h:1";
  EXPECT_EQ(Read(mpirun)->launcher, "mpirun");
  mpirun["GRADSYNC_REPORT"] = "/tmp/x";
  EXPECT_EQ(Read(mpirun)->launcher, "self") << "a program that has mpirun start it again";
}

TEST(WorldTest, VariablesForTorchrunAloneAreRefused) {
  EXPECT_EQ(ReadError({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}}),
            "PET_NNODES is set but RANK is not: that is for torchrun, which starts the ranks; run `torchrun "
            "--no-python PROGRAM FLAGS`");
  EXPECT_EQ(Read({{"PET_NNODES", "2"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}})->launcher, "torchrun");
}

TEST(WorldTest, SecretAndHost) {
  const auto world = Read({{"RANK", "0"},
                           {"WORLD_SIZE", "2"},
                           {"GRADSYNC_RENDEZVOUS", "file:///x"},
                           {"GRADSYNC_SECRET", "0123456789abcdef"},
                           {"GRADSYNC_HOST", "h"}});
  EXPECT_EQ(world->job_secret, "0123456789abcdef");
  EXPECT_EQ(world->host, "h");
  EXPECT_EQ(ReadError({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"GRADSYNC_JOB", std::string(201, 'x')}}),
            "GRADSYNC_JOB has 201 bytes, expected one line of at most 200");
  EXPECT_EQ(
      ReadError({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"GRADSYNC_SECRET", "0123456789abcde"}}),
      "GRADSYNC_SECRET has 15 bytes, expected at least 16 that nobody can guess, such as those of openssl "
      "rand -hex 16");
}

TEST(WorldTest, RendezvousOfTheUserWins) {
  EXPECT_EQ(Read({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", "a"},
                  {"MASTER_PORT", "1"},
                  {"GRADSYNC_RENDEZVOUS", "file:///mine"}})
                ->rendezvous,
            "file:///mine");
}

TEST(WorldTest, OneRankNeedsNoRendezvous) {
  ExpectWorld(Read({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}),
              {0, 1, 0, 1, "", "mpirun"});
}

TEST(WorldTest, MalformedVariablesAreNamed) {
  EXPECT_EQ(ReadError({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
            "RANK is 'one', expected a whole number from 0 to 1048575");
  EXPECT_EQ(ReadError({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}),
            "RANK is '-1', expected a whole number from 0 to 1048575");
  EXPECT_EQ(ReadError({{"RANK", "0"}, {"WORLD_SIZE", "0"}}),
            "WORLD_SIZE is '0', expected a whole number from 1 to 1048575");
  EXPECT_EQ(ReadError({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}}),
            "MASTER_PORT is '65535', expected a whole number from 1 to 65534");
}

TEST(WorldTest, ContradictionsAreNamed) {
  EXPECT_EQ(ReadError({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK is 2 but WORLD_SIZE is 2");
  EXPECT_EQ(ReadError({{"PMI_RANK", "0"}}), "PMI_RANK is set but PMI_SIZE is not");
  EXPECT_EQ(ReadError({{"GRADSYNC_WORLD_SIZE", "2"}}), "GRADSYNC_WORLD_SIZE is set but GRADSYNC_RANK is not");
  EXPECT_EQ(ReadError({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
            "LOCAL_RANK is 2 but LOCAL_WORLD_SIZE is 2");
}

TEST(WorldTest, RanksNeedAPlaceToMeet) {
  const std::string error = ReadError({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_NE(error.find("GRADSYNC_RENDEZVOUS is not set: mpirun or srun started 2 ranks"), std::string::npos)
      << error;
  EXPECT_NE(error.find("MASTER_ADDR"), std::string::npos) << error;
}

TEST(WorldTest, AHostIsTheOneGivenOrAWordOfTheSystem) {
  EXPECT_EQ(HostOf({.host = "given"}), "given");
  const std::string host = HostOf({});
  EXPECT_EQ(HostOf({}), host);
  EXPECT_GT(host.size(), 10u);
  EXPECT_EQ(host.find_first_of(" \n"), std::string::npos);
  // By which copies of a virtual machine differ.
  std::string address;
  try {
    address = OwnAddressTowards({.host = "192.0.2.1", .port = "9"}, Deadline::max());
  } catch (const std::runtime_error&) {
    // This machine has no network.
  }
  EXPECT_EQ(host.substr(host.rfind('/')), "/" + address);
}

}  // namespace
}  // namespace gradsync::comm
