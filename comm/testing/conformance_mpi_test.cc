// Over mpi, whose ranks have to be processes: this program has mpirun start it again, as four ranks.
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <span>
#include <vector>

#include "comm/mpi/mpi_process_group.h"
#include "comm/processes/launch.h"
#include "comm/rendezvous/job.h"
#include "comm/testing/conformance_suite.h"

namespace gradsync::comm {
namespace {

std::vector<ConformanceParam> Params() {
  std::vector<ConformanceParam> params;
  for (const int size : {1, 2, 3, 4}) params.push_back({"mpi", size});
  for (const std::string inner : {"shm", "mpi"}) {
    params.push_back({.backend = "hierarchical",
                      .size = 4,
                      .ranks_per_host = 2,
                      .options = {{"inner", inner}, {"outer", "mpi"}}});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::ValuesIn(Params()), ConformanceName);

int RunRank(World world) {
  world.host = Join("host", world.rank / 2);
  ConformanceTest::world = JoinJob(world, {}, std::chrono::seconds(60));
  // One rank reports; others print what fails.
  if (world.rank > 0) {
    testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_xml_generator());
  }
  MakeMpiGroup({.world = *ConformanceTest::world}, model::CpuDevice(), nullptr)
      ->Barrier();  // MPI begins on all ranks at once
  const int status = RUN_ALL_TESTS();
  ConformanceTest::world.reset();
  return status;
}

}  // namespace
}  // namespace gradsync::comm

// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizer's own name.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libmpi\nleak:libopen-\nleak:mca_\nleak:libpmix\n";
}

int main(int argc, char** argv) {
  using namespace gradsync::comm;  // NOLINT(google-build-using-namespace)
  if (MpiVersion().empty()) {
    std::puts("built without Open MPI: nothing to test");
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  if (const std::optional<World> world = WorldFromEnvironment()) return RunRank(*world);
  return LaunchSelf({.world_size = 4, .with_mpirun = true}, std::span(argv, static_cast<size_t>(argc)));
}
