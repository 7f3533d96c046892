// What a program says that was built without NCCL, or without Open MPI: linked with the stubs, whatever this
// machine has.
#include <gtest/gtest.h>

#include "comm/factory.h"
#include "comm/mpi/mpi_process_group.h"
#include "comm/nccl/nccl_process_group.h"
#include "comm/testing/errors.h"
#include "model/base/error.h"

namespace gradsync::comm {
namespace {

TEST(LibrariesAbsentTest, NcclIsOneLineFromEveryWayIn) {
  constexpr char kLine[] =
      "backend nccl: this program was built without NCCL: install libnccl-dev and build it again";
  EXPECT_EQ(ErrorOf<InvalidInput>([] { CheckBackend("nccl", {}, model::Device::Type::kCuda, World{}); }),
            kLine);
  EXPECT_EQ(ErrorOf<InvalidInput>([] { MakeNcclGroup({}, nullptr, nullptr); }), kLine);
  EXPECT_EQ(NcclVersion(), "");
}

TEST(LibrariesAbsentTest, OpenMpiIsOneLineFromEveryWayIn) {
  constexpr char kLine[] =
      "backend mpi: this program was built without Open MPI: BAZELW_EXTRAS=mpi ./bazelw build //bench:all "
      "builds it in";
  for (const auto& [backend, options] :
       {std::pair("mpi", BackendOptions{}), {"hierarchical", {{"outer", "mpi"}}}}) {
    EXPECT_EQ(ErrorOf<InvalidInput>([&] { CheckBackend(backend, options, model::Device::Type::kCpu, {}); }),
              kLine);
  }
  EXPECT_EQ(ErrorOf<InvalidInput>([] { MakeMpiGroup({}, nullptr, nullptr); }), kLine);
  EXPECT_TRUE(BackendLibraries().empty());
}

}  // namespace
}  // namespace gradsync::comm
