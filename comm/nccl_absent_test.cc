// What a program says that was built with a toolkit without NCCL: linked with the stub, whatever this machine
// has.
#include <gtest/gtest.h>

#include "comm/factory.h"
#include "comm/nccl/nccl_process_group.h"
#include "model/error.h"

namespace gradsync::comm {
namespace {

TEST(NcclAbsentTest, OneLineFromEveryWayIn) {
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const InvalidInput& error) {
      return error.what();
    }
    return "no error";
  };
  constexpr char kLine[] = "backend nccl: this program was built without NCCL";
  EXPECT_EQ(error_of([] { CheckBackend("nccl", model::Device::Type::kCuda, World{}); }), kLine);
  EXPECT_EQ(error_of([] { MakeNcclGroup({}, nullptr); }), kLine);
  EXPECT_EQ(NcclVersion(), "");
  EXPECT_TRUE(BackendLibraries().empty());
}

}  // namespace
}  // namespace gradsync::comm
