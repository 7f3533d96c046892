#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tools/test_summarize.h"

// What summarize says of the published experiments: every trap that is known of them must show.
namespace gradsync::tools {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class PublishedTest : public ::testing::Test {
 protected:
  static json Tables(const char* directory = "docs/published") {
    const Outcome outcome = RunWith({directory, "--format=json"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    std::map<std::string, json> tables;
    const json report = json::parse(outcome.out);
    for (const json& table : report.at("tables")) tables[table.at("name")] = table;
    return tables;
  }

  // The rows whose columns have these values, as objects.
  static std::vector<json> Rows(const json& table, const json& wanted) {
    std::vector<json> rows;
    for (const json& cells : table.at("rows")) {
      json row;
      for (size_t i = 0; i < cells.size(); ++i) row[table.at("columns")[i].get<std::string>()] = cells[i];
      bool is_wanted = true;
      for (const auto& [column, value] : wanted.items()) is_wanted &= row.at(column) == value;
      if (is_wanted) rows.push_back(row);
    }
    return rows;
  }

  const json tables_ = Tables();
};

TEST_F(PublishedTest, ADdpRunOnOneRankCommunicatesNothing) {
  const std::vector<json> rows = Rows(tables_["ddp"], {{"run", "published-000"}});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["strategy"], "naive");
  EXPECT_DOUBLE_EQ(rows[0]["time_per_step"], 0.408564);
  EXPECT_EQ(rows[0]["warnings"], "world=1 too-fast:779GB/s published:no-optimizer");
  EXPECT_THAT(rows[1]["warnings"].get<std::string>(), HasSubstr("too-fast"));
  // What overlap leaves exposed is no measure of what it communicates.
  EXPECT_EQ(rows[2]["warnings"], "world=1 published:no-optimizer");
}

// Two ranks save at most half of the memory, and not two thirds.
TEST_F(PublishedTest, ShardedWeightsTookLessThanTheyCan) {
  json ddp = Tables("docs/published/sharding")["ddp"];
  const std::vector<json> rows = Rows(ddp, {{"world_size", 2}});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["variant"], "bucketed_async@nccl");
  EXPECT_EQ(rows[0]["warnings"], "below-theory:97% published");
  EXPECT_EQ(rows[1]["warnings"], "below-theory:65% published");
  EXPECT_EQ(rows[2]["variant"], "zero3:keep=1@nccl");
  EXPECT_EQ(rows[2]["warnings"], "published");
  const std::vector<json> passes = Rows(ddp, {{"world_size", 4}});
  ASSERT_EQ(passes.size(), 3u);
  EXPECT_EQ(passes[1]["accumulation_steps"], 32);
  EXPECT_NEAR(passes[1]["delta (%)"].get<double>(), 100 * (8034.0 / 1747 - 1), 0.01);
}

// CS336: what is measured before the update is what theory says, but for buffers and what norms keep.
TEST_F(PublishedTest, ShardedStateTakesWhatTheorySays) {
  const json memory = Tables("docs/published/cs336")["memory"];
  const std::vector<json> rows = Rows(memory, json::object());
  ASSERT_EQ(rows.size(), 7u);
  for (const json& row : rows) {
    const double theory = row.at("in theory").get<double>();
    EXPECT_GE(row.at("before update").get<double>(), theory) << row;
    EXPECT_LE(row.at("before update").get<double>(), 1.03 * theory) << row;
  }
  json ddp = Tables("docs/published/cs336")["ddp"];
  const std::vector<json> overlap = Rows(ddp, {{"run", "published-cs336-2026"}, {"variant", "overlap@nccl"}});
  ASSERT_EQ(overlap.size(), 1u);
  EXPECT_NEAR(overlap[0].at("delta (%)").get<double>(), 100 * (1505.9 / 1808.6 - 1), 0.01);
}

TEST_F(PublishedTest, TheGridsTimerHeldTheTailOfBackward) {
  const std::vector<json> rows = Rows(tables_["ddp"], {{"world_size", 2}});
  ASSERT_EQ(rows.size(), 18u);
  for (const json& row : rows) EXPECT_THAT(row["warnings"].get<std::string>(), HasSubstr("unsynced-timer"));
}

TEST_F(PublishedTest, TheFlatGridLeftItsCopiesOut) {
  std::vector<json> rows = Rows(tables_["ddp"], {{"world_size", 2}});
  const std::vector<json> course =
      Rows(Tables("docs/published/cs336")["ddp"], {{"run", "published-cs336-2025"}});
  ASSERT_EQ(course.size(), 6u);
  rows.insert(rows.end(), course.begin(), course.end());
  for (const json& row : rows) {
    EXPECT_THAT(row["warnings"].get<std::string>(),
                EndsWith(row["strategy"] == "flat" ? "published:unsynced-timer,untimed-copies"
                                                   : "published:unsynced-timer"))
        << row;
  }
}

TEST_F(PublishedTest, BufferSizesWereInTwoUnits) {
  const json wanted = {{"buffer_elements (Mi)", 3.0}, {"phase", "backward_and_sync"}};
  const std::vector<json> rows = Rows(tables_["compare"], wanted);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["strategy"], "core");
  EXPECT_EQ(rows[0]["bucket_bytes"], 3 << 20);
  EXPECT_EQ(rows[0]["warnings"], "n<100 published:rank0-only");
  EXPECT_EQ(rows[1]["strategy"], "bucketed_async");
  EXPECT_EQ(rows[1]["bucket_bytes"], 12 << 20);
  EXPECT_EQ(rows[1]["warnings"], "units-differ:4x n<100 published:no-broadcast,rank0-only");
  EXPECT_NEAR(rows[1]["delta%"], 2.50722, 1e-3);
  EXPECT_NEAR(rows[1]["median"], 483.565, 1e-9);
  EXPECT_EQ(tables_["compare"]["rows"].size(), 150u);
  for (const json& row : Rows(tables_["compare"], json::object())) {
    EXPECT_THAT(
        row["warnings"].get<std::string>(),
        EndsWith(row["strategy"] == "core" ? "published:rank0-only" : "published:no-broadcast,rank0-only"))
        << row;
  }
  // At 12 MiB both, where the rows of one label say +2.5 %.
  const std::vector<json> fair =
      Rows(tables_["published"], {{"bucket_bytes", 12 << 20}, {"phase", "backward_and_sync"}});
  EXPECT_NEAR(fair.at(0)["of one label (%)"], 2.50722, 1e-3);
  EXPECT_LT(fair.at(0)["of equal bytes (%)"], 2);
}

TEST_F(PublishedTest, AllReduceRanOnFourRanks) {
  const std::vector<json> rows =
      Rows(tables_["all_reduce"], {{"backend", "nccl"}, {"data_size (MB)", 1024.0}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["world_size"], 4);
  EXPECT_DOUBLE_EQ(rows[0]["time_taken"], 0.00456288);
  EXPECT_DOUBLE_EQ(rows[0]["std_time"], 4.72274e-05);
  EXPECT_THAT(rows[0]["warnings"].get<std::string>(), Not(HasSubstr("too-fast")));
}

}  // namespace
}  // namespace gradsync::tools
