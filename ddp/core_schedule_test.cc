// What the strategies send, and when, whose gradients live in the buckets that travel.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ddp/schedule_suite.h"

namespace gradsync::ddp {
namespace {

TEST_F(ScheduleTest, CoreSendsFromTheFirstStepOnAndAgreesOnTheOrder) {
  Make("core");
  const Events first = Step();
  EXPECT_LT(IndexOf(first, "reduce 524288"), IndexOf(first, "grad 0"));
  // Five indices: the order.
  EXPECT_EQ(Events(first.end() - 2, first.end()), (Events{"broadcast 20", "wait broadcast 20"}));
  const Events second = Step();
  EXPECT_EQ(CountReduces(second), CountReduces(first));
  EXPECT_LT(IndexOf(second, "reduce 524288"), IndexOf(second, "grad 0"));
  EXPECT_EQ(
      std::count_if(second.begin(), second.end(), [](const auto& e) { return e.starts_with("broadcast"); }),
      0);
}

// Strategies whose gradients are aligned in their buckets.
TEST_F(ScheduleTest, BucketsAtTheEdgesAreSmallUnlessSwitchedOff) {
  TestModel big(std::vector<int64_t>(20, 128 << 10));  // 512 KiB each
  for (const char* const name : {"core", "core_update", "zero1", "zero2"}) {
    const auto kib_of = [&](const Values& values) {
      group_.has_common_memory = true;  // gathers nothing
      const auto strategy =
          MakeStrategy(name, {.params = big.params(),
                              .group = group_,
                              .options = {.bucket_bytes = size_t{4} << 20, .values = values}});
      std::vector<size_t> kib;
      for (const Bucket& bucket : strategy->plan().buckets) kib.push_back(bucket.bytes() >> 10);
      return kib;
    };
    EXPECT_EQ(kib_of({}), (std::vector<size_t>{1024, 4096, 2560, 1024, 1024, 512})) << name;
    EXPECT_EQ(kib_of({{"small_first", 0}}), (std::vector<size_t>{4096, 3072, 1536, 1024, 512})) << name;
    EXPECT_EQ(kib_of({{"small_last", 0}}), (std::vector<size_t>{1024, 4096, 4096, 1024})) << name;
    EXPECT_EQ(kib_of({{"small_first", 0}, {"small_last", 0}}), (std::vector<size_t>{4096, 4096, 2048}))
        << name;
  }
}

TEST_F(ScheduleTest, CoreWithoutReadyOrderKeepsItsFirstPlan) {
  const auto& p = model_.params();
  const std::vector<model::Parameter*> shuffled = {p[4], p[0], p[3], p[1], p[2]};
  strategy_ = MakeStrategy("core", {.params = shuffled,
                                    .group = group_,
                                    .options = {.bucket_bytes = kBytes, .values = {{"ready_order", 0}}}});
  const Events first = Step();
  EXPECT_EQ(Step(), first);
  std::vector<model::Parameter*> order;
  for (const Bucket& bucket : strategy_->plan().buckets) order.push_back(bucket.params.at(0));
  EXPECT_EQ(order, (std::vector<model::Parameter*>{p[2], p[1], p[3], p[0], p[4]}));
}

// The same messages at the same time, and gradients elsewhere: only copies differ.
TEST_F(ScheduleTest, CoreWithoutViewsSendsTheSameFromCopies) {
  Make("core");
  Step();
  const Events expected = Step();
  const size_t num_buckets = strategy_->plan().buckets.size();
  for (model::Parameter* const param : model_.params()) EXPECT_TRUE(group_.Holds(param->grad()));
  Make("core", 2 * kBytes, {{"views", 0}});
  Step();
  EXPECT_EQ(Step(), expected);
  EXPECT_EQ(strategy_->plan().buckets.size(), num_buckets);
  for (model::Parameter* const param : model_.params()) EXPECT_FALSE(group_.Holds(param->grad()));
}

// Kernels then write whole cache lines, and ranks that share memory never write to the same one.
TEST_F(ScheduleTest, CoreBeginsEachGradientOnACacheLine) {
  TestModel odd({1001, 999, 3});
  const std::unique_ptr<Strategy> core =
      MakeStrategy("core", {.params = odd.params(), .group = group_, .options = {kBytes}});
  core->BeginStep();
  const model::Var loss = odd.Loss(0, 0);
  model::Backward(TestModel::Scaled(loss, core->loss_scale()), odd.params(),
                  [&](model::Parameter& p) { core->OnGradReady(p); });
  core->Finish();
  for (model::Parameter* const param : odd.params()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(param->grad().raw_data()) % 64, 0u) << param->numel();
  }
}

// Unless it is asked to, core sends every row.
TEST_F(ScheduleTest, RowsAreLeftOutOnlyWhereTheyAreAskedFor) {
  const TestModel::RowsOfUse rows = [](int) { return std::optional(std::vector<int32_t>{1}); };
  for (const char* const name : {"core", "core_update"}) {
    for (const bool by_rows : {false, true}) {
      Make(name, 2 * kBytes, {{"rows", by_rows ? 1 : 0}});
      for (int step = 0; step < 2; ++step) {
        Step(model_.Once(), rows);
        strategy_->Update(optimizer_);
      }
      // Two messages of 128 bytes for each of five gradients, of which either rank sends one.
      EXPECT_EQ(strategy_->plan().SentBytes(2), by_rows ? 5 * 128 : 5.0 * kBytes) << name;
      EXPECT_EQ(strategy_->rows_save_bytes(), by_rows ? std::optional(5.0 * kBytes - 5 * 128) : std::nullopt)
          << name;
    }
  }
}

TEST_F(ScheduleTest, RowsAreRefusedWhereNobodyCanLeaveThemOut) {
  model::Parameter half("table", Tensor::Zeros(model_.device(), {8}, model::DType::kBF16));
  model::Parameter* const params[] = {&half};
  const auto make = [&](double rows) {
    MakeStrategy("core", {.params = params, .group = group_, .options = {.values = {{"rows", rows}}}});
  };
  make(0);
  EXPECT_EQ(ErrorOf([&] { make(1); }),
            "strategy 'core': rows=1: parameter 'table' is bf16 on cpu, expected f32 or f64 on the CPU");
}

// The gradient in the middle has ten rows of one element, which take a message of 128 bytes with their ids.
TEST_F(ScheduleTest, CoreSendsFewRowsAsSoonAsTheyAreReady) {
  const TestModel::RowsOfUse rows = [](int use) {
    return use == 2 ? std::optional(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) : std::nullopt;
  };
  Make("core", 2 * kBytes, {{"rows", 1}});
  Step(model_.Once(), rows);
  const Events expected = {"grad 4",
                           "grad 3",
                           "reduce 524288",
                           "grad 2",
                           "all_gather 256",
                           "grad 1",
                           "grad 0",
                           "reduce 524288",
                           "wait reduce 524288",
                           "wait all_gather 256",
                           "wait reduce 524288"};
  EXPECT_EQ(Step(model_.Once(), rows), expected);
  std::vector<size_t> planned;
  for (const Bucket& bucket : strategy_->plan().buckets) planned.push_back(bucket.sent_bytes());
  EXPECT_EQ(planned, group_.bytes());
  // Whole after all, which nobody could know before.
  Events whole = expected;
  whole.insert(whole.end() - 1, {"reduce 262144", "wait reduce 262144"});
  EXPECT_EQ(Step(), whole);
  EXPECT_EQ(Step(model_.Once(), rows), expected);
}

TEST_F(ScheduleTest, CoreLaysBucketsOutInReadyOrder) {
  // The graph uses the parameters in the order 0..4, the list names them in another: the first plan is wrong.
  const auto& p = model_.params();
  const std::vector<model::Parameter*> shuffled = {p[4], p[0], p[3], p[1], p[2]};
  strategy_ = MakeStrategy("core", {.params = shuffled, .group = group_, .options = {kBytes}});
  Step();
  std::vector<model::Parameter*> order;
  for (const Bucket& bucket : strategy_->plan().buckets) order.push_back(bucket.params.at(0));
  EXPECT_EQ(order, (std::vector<model::Parameter*>{p[4], p[3], p[2], p[1], p[0]}));
  // Now every gradient is sent as soon as it is there.
  const Events second = Step();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(second.at(2 * i + 1), "reduce 262144");
}

// Buckets {4 3} {2 1} {0}.
TEST_F(ScheduleTest, CoreUpdateTakesEachBucketWhenItsSumIsThere) {
  Make("core_update");
  StepAndUpdate();
  const Events expected = {"grad 4",
                           "grad 3",
                           "reduce 524288",
                           "grad 2",
                           "grad 1",
                           "reduce 524288",
                           "grad 0",
                           "reduce 262144",
                           "update",
                           "wait reduce 524288",
                           "wait reduce 524288",
                           "wait reduce 262144"};
  EXPECT_EQ(StepAndUpdate(), expected);
  // While bucket 1 travels, bucket 0 has been updated and bucket 1 has not.
  std::vector<uint64_t> versions;
  const auto remember = [&](const std::string&) {
    versions = {model_.params()[4]->version(), model_.params()[2]->version()};
  };
  Step();
  const uint64_t before = model_.params()[4]->version();
  ASSERT_EQ(model_.params()[2]->version(), before);
  int waits = 0;
  group_.on_wait = [&](const std::string& what) {
    if (++waits == 2) remember(what);
  };
  strategy_->Update(optimizer_);
  group_.on_wait = {};
  EXPECT_EQ(versions, (std::vector<uint64_t>{before + 1, before}));
}

}  // namespace
}  // namespace gradsync::ddp
