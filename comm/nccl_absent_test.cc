// What a program says that was built with a toolkit without NCCL: linked with the stub, whatever this machine
// has.
#include <gtest/gtest.h>

#include "comm/factory.h"
#include "comm/nccl/nccl_process_group.h"
#include "comm/testing/errors.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

TEST(NcclAbsentTest, OneLineFromEveryWayIn) {
  constexpr char kLine[] = "backend nccl: this program was built without NCCL";
  EXPECT_EQ(ErrorOf<InvalidInput>([] { CheckBackend("nccl", {}, model::Device::Type::kCuda, World{}); }),
            kLine);
  EXPECT_EQ(ErrorOf<InvalidInput>([] { MakeNcclGroup({}, nullptr); }), kLine);
  EXPECT_EQ(NcclVersion(), "");
  EXPECT_TRUE(BackendLibraries().empty());
}

}  // namespace
}  // namespace gradsync::comm
