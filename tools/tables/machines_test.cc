#include "tools/tables/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/records/record.h"
#include "tools/tables/test_tables.h"

namespace gradsync::tools {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

// A row of a machine with this kernel, whose ranks reach `peak` floating-point operations per second; unknown
// if 0.
Measurement On(const std::string& kernel, double peak, const std::string& gpu = "") {
  return Steady("core", Wobble(100, 24, 1), [=](bench::Record& rank) {
    rank.provenance.kernel = kernel;
    rank.provenance.gpu = gpu;
    if (peak > 0) rank.facts.Set("peak_flops_per_second", peak);
  });
}

TEST(MachinesTest, OneMachineHasOneSentence) {
  const Measurement slow = On("Linux 6.1.0", 174.4e9), fast = On("Linux 6.1.0", 180.6e9),
                    silent = On("Linux 6.1.0", 0);
  EXPECT_EQ(MachinesText({{"b1", &slow}, {"b2", &fast}, {"b2", &silent}}),
            "Measured on Some CPU, 8 CPUs, Linux 6.1.0; its ranks reach 174 to 181 GFLOP/s.");
  EXPECT_EQ(MachinesText({{"", &slow}}),
            "Measured on Some CPU, 8 CPUs, Linux 6.1.0; its ranks reach 174 GFLOP/s.");
  EXPECT_EQ(MachinesText({{"", &silent}}), "Measured on Some CPU, 8 CPUs, Linux 6.1.0.");
  const Measurement gpu = On("Linux 6.1.0", 791.6e12, "Some GPU");
  EXPECT_EQ(MachinesText({{"", &gpu}}), "Measured on Some GPU, Linux 6.1.0; its ranks reach 792 TFLOP/s.");
}

TEST(MachinesTest, PlacesOfSeveralMachinesAreNamed) {
  const Measurement a = On("Linux 6.1.0", 220e9), b = On("Linux 6.6.0", 130e9);
  EXPECT_EQ(MachinesText({{"over gloo", &a}, {"over shm", &a}, {"over gloo", &a}, {"at 1 Gbit/s", &b}}),
            "Measured over gloo and over shm on Some CPU, 8 CPUs, Linux 6.1.0; its ranks reach 220 GFLOP/s; "
            "at 1 Gbit/s "
            "on Some CPU, 8 CPUs, Linux 6.6.0; its ranks reach 130 GFLOP/s.");
}

TEST(MachinesTest, PublishedFiguresHaveNone) {
  const Measurement published =
      Steady("core", Wobble(100, 24, 1), [](bench::Record& rank) { rank.provenance = {}; });
  EXPECT_EQ(MachinesText({{"", &published}}), "");
  const Tabled t({{published}});
  EXPECT_THAT(t.table("ddp").notes(), Not(Contains(StartsWith("Measured"))));
}

TEST(MachinesTest, EachColumnOfATableOfLinksHasItsMachine) {
  const auto over = [](int64_t rate, const char* strategy, const char* kernel) {
    return Steady(strategy, Wobble(100, 24, 1), [=](bench::Record& rank) {
      if (rate > 0) rank.config.Set("link_rate", rate);
      rank.run_id = "run" + std::to_string(rate);
      rank.provenance.kernel = kernel;
    });
  };
  const Tabled t({{over(1000000000, "core", "Linux 1"), over(1000000000, "flat", "Linux 1")},
                  {over(4000000000, "core", "Linux 2"), over(4000000000, "flat", "Linux 2")},
                  {over(0, "core", "Linux 3"), over(0, "flat", "Linux 3")}});
  EXPECT_THAT(t.table("links").notes(),
              Contains("Measured over gloo on Some CPU, 8 CPUs, Linux 3; at 1 Gbit/s on Some CPU, 8 CPUs, "
                       "Linux 1; at 4 Gbit/s on Some CPU, 8 CPUs, Linux 2."));
}

}  // namespace
}  // namespace gradsync::tools
