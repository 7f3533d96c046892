#include "tools/tables/parts/runs.h"

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

TEST(RunTextsTest, TellWhatWasRunWhereAndHow) {
  bench::Record run;
  run.experiment = "ddp";
  run.run_id = "run1";
  run.time_utc = "now";
  run.world_size = 2;
  run.config.Set("threads_per_rank", int64_t{1});
  run.config.Set("comm_threads", int64_t{3});
  run.provenance.command_line = "bench/ddp --steps=3";
  run.provenance.cpu_model = "Some CPU";
  run.provenance.clock = "steady";
  bench::Record published = run;
  published.published["step_ns"] = {};
  const std::vector<RunText> texts = DescribeRuns({&run, &published});
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0].experiment + " " + texts[0].run + " " + texts[0].time, "ddp run1 now");
  EXPECT_EQ(texts[0].ranks, "2 ranks, each with compute threads: 1, communication threads: 3");
  EXPECT_EQ(texts[0].command, "./bazelw run //bench:ddp -- --steps=3");
  EXPECT_NE(texts[0].machine.find(" x Some CPU"), std::string::npos);
  EXPECT_NE(texts[0].software.find(", clock steady"), std::string::npos);
  EXPECT_EQ(texts[1].time, "figures that others published");
  EXPECT_EQ(texts[1].machine + texts[1].software, "");
}

}  // namespace
}  // namespace gradsync::tools
