#include "tools/records/measurement_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tools/records/test_records.h"

namespace gradsync::tools {
namespace {

using bench::Record;

constexpr size_t kSteps = 8000;  // lines of some 300 kB, of which 48 make several batches

// A comparison of `strategies`, which come once for each number of bytes in a bucket.
class MeasurementStreamTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& strategies, const std::vector<size_t>& spoilt) {
    path_ = FreshTestDir("stream") + "/a.jsonl";
    std::ofstream file(path_);
    for (size_t i = 0; i < strategies.size(); ++i) {
      Record record =
          DdpRecord(strategies[i], 0, std::vector<int64_t>(kSteps, static_cast<int64_t>(1000 + i)));
      record.config.Set("bucket_bytes", i);
      std::string line = ToJsonLine(record);
      if (std::find(spoilt.begin(), spoilt.end(), i) != spoilt.end()) {
        line.replace(line.find("\"samples\":{"), 11, "\"samples\":[{");
      }
      file << line << "\n";
    }
  }

  // "0<3 1<3 ...": the number of each measurement, and that of its baseline.
  std::string Stream() {
    Problems problems;
    RecordIndex index(&problems);
    index.Add(path_);
    index.Finish();
    MeasurementStream stream(
        &index, [](std::string_view) { return "naive"; }, [](const Record&) { return std::string(); });
    std::string text;
    const auto number_of = [](const Measurement& measurement) {
      const int64_t number = measurement.record.config.IntOr("bucket_bytes", -1);
      EXPECT_EQ(measurement.num_steps, kSteps);
      EXPECT_NEAR(measurement.Find("step_ns")->mean(), 1e-9 * static_cast<double>(1000 + number), 1e-13);
      return std::to_string(number);
    };
    stream.ForEach([&](const Measurement& measurement, const Measurement& baseline) {
      text += number_of(measurement) + "<" + number_of(baseline) + " ";
      EXPECT_EQ(number_of(measurement) == number_of(baseline), &measurement == &baseline);
    });
    num_records_ = stream.num_records();
    cells_without_baseline_ = stream.cells_without_baseline();
    num_problems_ = problems.count();
    return text;
  }

  static std::string All(size_t n, const std::vector<size_t>& spoilt, size_t baseline) {
    std::string text;
    for (size_t i = 0; i < n; ++i) {
      if (std::find(spoilt.begin(), spoilt.end(), i) != spoilt.end()) continue;
      text += std::to_string(i) + "<" + std::to_string(baseline) + " ";
    }
    return text;
  }

  std::string path_;
  int64_t num_records_ = 0;
  int64_t cells_without_baseline_ = 0;
  int64_t num_problems_ = 0;
};

TEST_F(MeasurementStreamTest, ABaselineServesAllBatchesOfItsCell) {
  std::vector<std::string> strategies(48, "core");
  strategies[40] = "naive";
  Write(strategies, {});
  EXPECT_EQ(Stream(), All(48, {}, 40));
  EXPECT_EQ(num_records_, 48);
  EXPECT_EQ(cells_without_baseline_, 0);
}

TEST_F(MeasurementStreamTest, ACellThatLacksItsBaselineIsCountedOnce) {
  Write(std::vector<std::string>(48, "core"), {});
  EXPECT_EQ(Stream(), All(48, {}, 0));
  EXPECT_EQ(cells_without_baseline_, 1);
}

TEST_F(MeasurementStreamTest, ASpoiltBaselineIsReportedOnceAndReplaced) {
  std::vector<std::string> strategies(48, "core");
  strategies[40] = "naive";
  const std::vector<size_t> spoilt = {0, 40, 41};
  Write(strategies, spoilt);
  EXPECT_EQ(Stream(), All(48, spoilt, 1));
  EXPECT_EQ(num_records_, 45);
  EXPECT_EQ(num_problems_, 3);
  EXPECT_EQ(cells_without_baseline_, 0);
}

TEST_F(MeasurementStreamTest, NothingIsStreamedWhereAllIsSpoilt) {
  Write({"core", "naive"}, {0, 1});
  EXPECT_EQ(Stream(), "");
  EXPECT_EQ(num_problems_, 2);
}

}  // namespace
}  // namespace gradsync::tools
