#include "tools/tables/runs.h"

#include <gtest/gtest.h>

namespace gradsync::tools {
namespace {

TEST(ReproducingCommandTest, RunsTheTarget) {
  EXPECT_EQ(ReproducingCommand("/tmp/out/bin/bench/ddp --steps=3 --out=x"),
            "./bazelw run //bench:ddp -- --steps=3 --out=x");
  EXPECT_EQ(ReproducingCommand("bench/peers/pytorch_ddp.py --steps=3"),
            "bench/peers/pytorch_ddp.py --steps=3");
  EXPECT_EQ(ReproducingCommand(""), "");
}

TEST(ReproducingCommandTest, LeavesFlagsOut) {
  EXPECT_EQ(CommandWithout("/x/bench/ddp --steps=3 --out=x --model tiny --time 3m", {"steps", "model"}),
            "./bazelw run //bench:ddp -- --out=x --time 3m");
}

}  // namespace
}  // namespace gradsync::tools
