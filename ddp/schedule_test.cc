// What each strategy sends, and when, relative to the computation of gradients. Overlap is an order of
// events: an all-reduce issued before the last gradient is computed. No clock is involved.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"

namespace gradsync::ddp {
namespace {

using comm::ReduceOp;
using model::Tensor;

// Two ranks that agree on everything; writes what is asked of it into a log shared with backward.
class LoggingGroup : public comm::ProcessGroup {
 public:
  explicit LoggingGroup(std::vector<std::string>& log) : ProcessGroup(0, 2), log_(log) {}

  std::string_view backend() const override { return "logging"; }

  Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    Tensor tensor = Tensor::Empty(device, std::move(shape), dtype);
    allocated_bytes_ += tensor.nbytes();
    return tensor;
  }
  Tensor AllocateShared(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    return has_common_memory ? Tensor::Zeros(device, std::move(shape), dtype) : Tensor();
  }
  comm::Work Issue(comm::Request request) override {
    const Tensor& input = request.input;
    const Tensor& output = request.output;
    switch (request.collective) {
      case comm::Collective::kAllReduce:
        bytes_.push_back(output.nbytes());
        return Log("reduce", output);
      case comm::Collective::kBroadcast:
        return Log("broadcast", output);
      case comm::Collective::kReduceScatter:
        bytes_.push_back(input.nbytes());
        return Log("reduce_scatter", output);
      case comm::Collective::kAllGather:
        for (int rank = 0; rank < size(); ++rank) {
          output.Slice(rank * input.numel(), input.shape()).CopyFrom(input);
        }
        bytes_.push_back(output.nbytes());
        return Log("all_gather", output);
      case comm::Collective::kBarrier:
        if (on_barrier) on_barrier();
        log_.push_back("barrier");
    }
    return {};
  }

  std::vector<size_t>& bytes() { return bytes_; }
  std::function<void(const std::string& what)> on_wait = {};  // before it is logged
  std::function<void()> on_barrier = {};
  size_t allocated_bytes() const { return allocated_bytes_; }
  bool has_common_memory = false;

 private:
  // Logs the moment of issue, and the first wait.
  class Issued : public comm::Work::State {
   public:
    Issued(LoggingGroup& group, std::string name) : group_(group), name_(std::move(name)) {}
    void Wait() override {
      if (group_.on_wait) group_.on_wait(name_);
      group_.log_.push_back("wait " + name_);
    }
    comm::Interval interval() override { return {}; }

   private:
    LoggingGroup& group_;
    const std::string name_;
  };

  comm::Work Log(const std::string& what, const Tensor& tensor) {
    const std::string name = what + " " + std::to_string(tensor.nbytes());
    log_.push_back(name);
    return comm::Work(std::make_shared<Issued>(*this, name));
  }

  std::vector<std::string>& log_;
  std::vector<size_t> bytes_;
  size_t allocated_bytes_ = 0;
};

using Events = std::vector<std::string>;

class ScheduleTest : public testing::Test {
 protected:
  // Five parameters of 256 KiB each; buckets of 512 KiB.
  static constexpr int64_t kNumel = 64 << 10;
  static constexpr size_t kBytes = size_t{256} << 10;

  void Make(std::string_view name, size_t bucket_bytes = 2 * kBytes) {
    strategy_ = MakeStrategy(name, {.params = model_.params(), .group = group_, .options = {bucket_bytes}});
  }

  // One step; returns its events. "grad i": the gradient of parameter i is being computed.
  std::vector<std::string> Step() { return Step(model_.Once()); }
  std::vector<std::string> Step(const std::vector<size_t>& uses, const TestModel::RowsOfUse& rows = {}) {
    log_.clear();
    group_.bytes().clear();
    for (model::Parameter* param : model_.params()) param->ResetGrad();
    strategy_->BeginStep();
    const model::Var loss = model_.Loss(
        0, 0, uses, [this](int i) { log_.push_back("grad " + std::to_string(i)); }, rows);
    model::Backward(TestModel::Scaled(loss, strategy_->loss_scale()), model_.params(),
                    [this](model::Parameter& p) { strategy_->OnGradReady(p); });
    strategy_->Finish();
    return log_;
  }

  // The same with the update, by an optimizer without state.
  Events StepAndUpdate() {
    Step();
    log_.push_back("update");
    strategy_->Update(optimizer_);
    return log_;
  }

  // Whether gradients are elsewhere than they were when forward begins.
  bool PlacesGradients(const std::string& name) {
    Make(name);
    bool places = true;
    const Tensor place = Tensor::Zeros(model_.device(), {kNumel}, model::DType::kF32);
    for (model::Parameter* param : model_.params()) param->PlaceGrad(place);
    strategy_->BeginStep();
    for (model::Parameter* param : model_.params()) places = places && !param->grad().SameStorage(place);
    return places;
  }

  static size_t IndexOf(const std::vector<std::string>& events, const std::string& event) {
    const auto found = std::find(events.begin(), events.end(), event);
    EXPECT_NE(found, events.end()) << event;
    return static_cast<size_t>(found - events.begin());
  }

  static bool IsSend(const std::string& event) {
    return event.starts_with("reduce") || event.starts_with("all_gather");
  }

  static size_t CountReduces(const std::vector<std::string>& events) {
    return static_cast<size_t>(std::count_if(events.begin(), events.end(),
                                             [](const std::string& e) { return e.starts_with("reduce"); }));
  }

  std::vector<std::string> log_;
  LoggingGroup group_{log_};
  TestModel model_{std::vector<int64_t>(5, kNumel)};
  std::unique_ptr<Strategy> strategy_;
  model::Sgd optimizer_{model_.params(), {}};
};

const Events kGradients = {"grad 4", "grad 3", "grad 2", "grad 1", "grad 0"};

Events Concat(Events a, const Events& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(ScheduleTest, NoneSendsNothing) {
  Make("none");
  EXPECT_EQ(Step(), kGradients);
}

TEST_F(ScheduleTest, NaiveSendsEveryParameterAfterBackwardAndBlocks) {
  Make("naive");
  Events expected = kGradients;
  for (int i = 0; i < 5; ++i) expected = Concat(expected, {"reduce 262144", "wait reduce 262144"});
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, FlatSendsOnceAfterBackward) {
  Make("flat");
  EXPECT_EQ(Step(), Concat(kGradients, {"reduce 1310720", "wait reduce 1310720"}));
}

TEST_F(ScheduleTest, OverlapSendsEachGradientBeforeTheNextIsComputed) {
  Make("overlap");
  Events expected;
  for (int i = 4; i >= 0; --i) expected = Concat(expected, {"grad " + std::to_string(i), "reduce 262144"});
  expected.insert(expected.end(), 5, "wait reduce 262144");
  EXPECT_EQ(Step(), Concat(expected, {"broadcast 20", "wait broadcast 20"}));  // five indices: the order
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, OverlapSendsInTheOrderOfRank0sFirstStep) {
  Make("overlap");
  const std::vector<size_t> uses = {2, 0, 4, 1};  // 3 is unused, and ready at the end
  const Events first = Step(uses);
  Events expected = {"grad 1", "grad 4", "reduce 262144", "grad 0", "grad 2"};
  EXPECT_EQ(std::vector(first.begin(), first.begin() + 5), expected);
  expected.clear();
  for (const int i : {1, 4, 0, 2})
    expected = Concat(expected, {"grad " + std::to_string(i), "reduce 262144"});
  expected.push_back("reduce 262144");
  expected.insert(expected.end(), 5, "wait reduce 262144");
  EXPECT_EQ(Step(uses), expected);
  // As agreed, though here another order would be ready earlier.
  expected = {"grad 4", "grad 1", "reduce 262144", "reduce 262144", "grad 0", "reduce 262144", "grad 2"};
  const Events other = Step({2, 0, 1, 4});
  EXPECT_EQ(std::vector(other.begin(), other.begin() + 7), expected);
}

TEST_F(ScheduleTest, BucketedSyncSendsBucketsAfterBackwardAndBlocks) {
  Make("bucketed_sync");
  // Filled in forward order, {0 1} {2 3} {4}, and sent last first.
  EXPECT_EQ(Step(), Concat(kGradients, {"reduce 262144", "wait reduce 262144", "reduce 524288",
                                        "wait reduce 524288", "reduce 524288", "wait reduce 524288"}));
}

TEST_F(ScheduleTest, BucketedAsyncSendsAFullBucketBeforeTheNextGradient) {
  Make("bucketed_async");
  const Events expected = {"grad 4",
                           "reduce 262144",
                           "grad 3",
                           "grad 2",
                           "reduce 524288",
                           "grad 1",
                           "grad 0",
                           "reduce 524288",
                           "wait reduce 262144",
                           "wait reduce 524288",
                           "wait reduce 524288"};
  EXPECT_EQ(Step(), expected);
  EXPECT_EQ(Step(), expected);
}

TEST_F(ScheduleTest, CoreSendsFromTheFirstStepOnAndAgreesOnTheOrder) {
  Make("core");
  const Events first = Step();
  EXPECT_LT(IndexOf(first, "reduce 524288"), IndexOf(first, "grad 0"));
  // Five indices, the order; how many rows of each have a gradient, as a number of 8 bytes.
  EXPECT_EQ(Events(first.end() - 4, first.end()),
            (Events{"broadcast 20", "wait broadcast 20", "broadcast 40", "wait broadcast 40"}));
  const Events second = Step();
  EXPECT_EQ(CountReduces(second), CountReduces(first));
  EXPECT_LT(IndexOf(second, "reduce 524288"), IndexOf(second, "grad 0"));
  EXPECT_EQ(
      std::count_if(second.begin(), second.end(), [](const auto& e) { return e.starts_with("broadcast"); }),
      0);
}

TEST_F(ScheduleTest, CoreHasASmallFirstBucketAndNoneLargerThanWhatFollows) {
  TestModel big(std::vector<int64_t>(20, 128 << 10));  // 512 KiB each
  const std::unique_ptr<Strategy> core =
      MakeStrategy("core", {.params = big.params(), .group = group_, .options = {size_t{4} << 20}});
  std::vector<size_t> kib;
  for (const Bucket& bucket : core->plan().buckets) kib.push_back(bucket.bytes() >> 10);
  EXPECT_EQ(kib, (std::vector<size_t>{1024, 4096, 2560, 1024, 1024, 512}));
}

// So that kernels write whole cache lines, and ranks that share memory never write to the same one.
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

// The gradient in the middle has ten rows of one element, which take a message of 128 bytes with their ids.
TEST_F(ScheduleTest, CoreSendsFewRowsAsSoonAsTheyAreReady) {
  const TestModel::RowsOfUse rows = [](int use) {
    return use == 2 ? std::optional(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) : std::nullopt;
  };
  Make("core");
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

TEST_F(ScheduleTest, CoreGradientsAreTheBucketsThemselves) {
  Make("core");
  Step();
  Step();
  const BucketPlan plan = strategy_->plan();
  for (const Bucket& bucket : plan.buckets) {
    const auto* start = static_cast<const std::byte*>(bucket.params.front()->grad().raw_data());
    for (size_t i = 0; i < bucket.params.size(); ++i) {
      EXPECT_EQ(bucket.params[i]->grad().raw_data(), start + static_cast<size_t>(bucket.offsets[i]) * 4);
    }
  }
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

// Each bucket is reduced to parts as soon as it is full; while a bucket's weights travel the next is updated.
TEST_F(ScheduleTest, Zero1ReducesDuringBackwardAndGathersDuringTheUpdate) {
  Make("zero1");
  const Events expected = {"grad 4",
                           "grad 3",
                           "reduce_scatter 262144",
                           "grad 2",
                           "grad 1",
                           "reduce_scatter 262144",
                           "grad 0",
                           "reduce_scatter 131072",
                           "update",
                           "wait reduce_scatter 262144",
                           "all_gather 524288",
                           "wait reduce_scatter 262144",
                           "all_gather 524288",
                           "wait all_gather 524288",
                           "wait reduce_scatter 131072",
                           "all_gather 262144",
                           "wait all_gather 524288",
                           "wait all_gather 262144"};
  EXPECT_EQ(StepAndUpdate(), expected);
  EXPECT_EQ(StepAndUpdate(), expected);
}

// A bucket's memory is used again when it has been reduced: for that of parameter 0 the first must have
// arrived, which is asked for when there is nothing left to do without it.
TEST_F(ScheduleTest, Zero2ReusesTheMemoryOfBucketsThatHaveBeenReduced) {
  Make("zero2", kBytes);
  const Events expected = {"grad 4",
                           "reduce_scatter 131072",
                           "grad 3",
                           "reduce_scatter 131072",
                           "grad 2",
                           "reduce_scatter 131072",
                           "wait reduce_scatter 131072",
                           "grad 1",
                           "reduce_scatter 131072",
                           "grad 0",
                           "reduce_scatter 131072"};
  Events backward = Step();
  ASSERT_GT(backward.size(), expected.size());
  backward.resize(expected.size());
  EXPECT_EQ(backward, expected);
  EXPECT_TRUE(model_.params()[0]->grad().SameStorage(model_.params()[4]->grad()));
  const size_t allocated = group_.allocated_bytes();
  Make("zero1", kBytes);
  EXPECT_EQ(allocated, 4 * kBytes);
  EXPECT_EQ(group_.allocated_bytes() - allocated, 5 * kBytes);
}

// Ranks that have memory in common gather nothing. They meet when all have read the old weights, before the
// first is written, and when all have written the new ones. In the first step they also meet before and after
// they bring the weights to that memory.
TEST_F(ScheduleTest, ShardedWeightsInCommonMemoryNeedTwoMeetings) {
  group_.has_common_memory = true;
  for (const std::string& name : StrategyNames()) {
    if (!TraitsOf(name).shards_state) continue;
    Make(name);
    const Tensor own = model_.params()[0]->value();
    const Events first = StepAndUpdate();
    EXPECT_EQ(Events(first.begin(), first.begin() + 3), (Events{"barrier", "barrier", "grad 4"})) << name;
    EXPECT_FALSE(model_.params()[0]->value().SameStorage(own)) << name;
    const uint64_t version = model_.params()[0]->version();
    std::vector<uint64_t> versions;  // of the weights when ranks meet
    group_.on_barrier = [&] { versions.push_back(model_.params()[0]->version()); };
    const Events second = StepAndUpdate();
    group_.on_barrier = {};
    EXPECT_EQ(std::ranges::count(second, "barrier"), 2) << name;
    EXPECT_LT(IndexOf(second, "update"), IndexOf(second, "barrier")) << name;
    EXPECT_EQ(second.back(), "barrier") << name;
    ASSERT_EQ(versions.size(), 2u);
    EXPECT_LT(versions[0], versions[1]) << name;
    EXPECT_EQ(std::ranges::count_if(second, [](auto& e) { return e.find("gather") != e.npos; }), 0) << name;
    EXPECT_EQ(strategy_->plan().SentBytes(2), 2.5 * kBytes) << name;
    // From other weights, after which all read them; and back to memory of the parameters' own.
    EXPECT_LT(version, model_.params()[0]->version()) << name;
    strategy_->Reset();
    EXPECT_EQ(StepAndUpdate()[0], "barrier") << name;
    const std::vector<float> trained = model_.params()[0]->value().ToVector<float>();
    strategy_.reset();
    EXPECT_TRUE(model_.params()[0]->value().SameStorage(own)) << name;
    EXPECT_EQ(own.ToVector<float>(), trained) << name;
  }
}

// ZeroRedundancyOptimizer sends half as much again: an all-reduce of gradients, and then all weights.
TEST_F(ScheduleTest, ShardedStatesMoveAsManyBytesAsAnAllReduce) {
  for (const char* const name : {"core", "zero1", "zero2"}) {
    Make(name);
    EXPECT_EQ(strategy_->plan().SentBytes(2), 5.0 * kBytes) << name;
  }
}

TEST_F(ScheduleTest, EveryStrategySendsEveryByteOnce) {
  for (const std::string& name : StrategyNames()) {
    if (TraitsOf(name).agreement != Agreement::kExact) continue;
    for (const size_t bucket_bytes : {size_t{1}, kBytes, 3 * kBytes, size_t{1} << 30}) {
      Make(name, bucket_bytes);
      for (int step = 0; step < 3; ++step) {
        StepAndUpdate();
        size_t sum = 0;
        for (const size_t bytes : group_.bytes()) sum += bytes;
        // Sharded: gradients to parts, and weights from parts.
        EXPECT_EQ(sum, (TraitsOf(name).shards_state ? 2 : 1) * 5 * kBytes)
            << name << ", buckets of " << bucket_bytes;
      }
      std::vector<size_t> planned;
      for (const Bucket& bucket : strategy_->plan().buckets) planned.push_back(bucket.bytes());
      EXPECT_EQ(group_.bytes(), planned) << name;
    }
  }
}

// What others decide by.
TEST_F(ScheduleTest, TraitsSayWhatStrategiesDo) {
  for (const std::string& name : StrategyNames()) {
    const Traits& traits = TraitsOf(name);
    EXPECT_EQ(traits.name, name);
    EXPECT_FALSE(traits.summary.empty()) << name;
    for (const Option& option : traits.options) {
      EXPECT_FALSE(option.meaning.empty()) << name << ":" << option.name;
      CheckValue(option, option.default_value);
    }
    EXPECT_TRUE(traits.period_option.empty() || traits.FindOption(traits.period_option) != nullptr) << name;
    EXPECT_EQ(PlacesGradients(name), traits.places_gradients) << name;
    for (model::Parameter* param : model_.params()) param->PlaceGrad({});
    strategy_.reset();
    const auto bytes_in_use = [&] { return model_.device()->allocator().stats().bytes_in_use; };
    const auto before = bytes_in_use();
    Make(name);
    const auto buffers = static_cast<double>(bytes_in_use() - before);
    EXPECT_LE(buffers, traits.gradient_copies * 5 * kBytes) << name;
    EXPECT_EQ(buffers >= kBytes, traits.gradient_copies > 0) << name;
    StepAndUpdate();
    // A whole period, for a strategy that has one.
    std::vector<std::string> events;
    for (int64_t step = 0; step < PeriodOf(traits, {}); ++step) {
      events = StepAndUpdate();
      if (std::ranges::any_of(events, IsSend)) break;
    }
    EXPECT_EQ(std::ranges::any_of(events, IsSend), traits.communicates) << name;
    const auto is_grad = [](const std::string& event) { return event.starts_with("grad"); };
    const auto first_send = std::ranges::find_if(events, IsSend) - events.begin();
    const auto after_last_grad =
        std::find_if(events.rbegin(), events.rend(), is_grad).base() - events.begin();
    EXPECT_EQ(first_send < after_last_grad, traits.overlaps) << name;
    EXPECT_EQ(traits.communicates || &traits == &FloorTraits(), true) << name;
    const auto num_buckets = [&](size_t bytes) {
      return Make(name, bytes), strategy_->plan().buckets.size();
    };
    EXPECT_EQ(num_buckets(1) != num_buckets(size_t{1} << 30), traits.has_buckets) << name;
  }
  EXPECT_FALSE(FloorTraits().communicates);
  EXPECT_THROW(TraitsOf("fast"), InvalidInput);
}

TEST(FactoryTest, BadInputIsNamed) {
  std::vector<std::string> log;
  LoggingGroup group(log);
  const TestModel model({1});
  try {
    MakeStrategy("fast", {.params = model.params(), .group = group, .options = {}});
    FAIL();
  } catch (const InvalidInput& error) {
    const std::string names = absl::StrJoin(StrategyNames(), ", ");
    EXPECT_EQ(error.what(), "unknown strategy 'fast', expected one of " + names);
  }
  EXPECT_THROW(MakeStrategy("core", {.params = {}, .group = group, .options = {}}), InvalidInput);
  EXPECT_THROW(MakeStrategy("core", {.params = model.params(), .group = group, .options = {0}}),
               InvalidInput);
  const StrategyOptions unknown = {.values = {{"speed", 3}}};
  EXPECT_THROW(MakeStrategy("core", {.params = model.params(), .group = group, .options = unknown}),
               InvalidInput);
}

TEST(FactoryTest, ValuesOfOptionsAreCheckedAndHaveDefaults) {
  static constexpr Option kOptions[] = {
      {.name = "every",
       .meaning = "",
       .unit = Option::Unit::kCount,
       .default_value = 8,
       .minimum = 1,
       .maximum = 100},
      {.name = "rate", .meaning = "", .default_value = 0.5, .minimum = 0, .maximum = 1}};
  const Traits traits = {.name = "new", .summary = "", .options = kOptions, .period_option = "every"};
  EXPECT_EQ(ValueOf(traits, "rate", {}), 0.5);
  EXPECT_EQ(ValueOf(traits, "rate", {.values = {{"rate", 0.25}}}), 0.25);
  EXPECT_EQ(PeriodOf(traits, {}), 8);
  EXPECT_EQ(PeriodOf(traits, {.values = {{"every", 3}}}), 3);
  EXPECT_EQ(PeriodOf(FloorTraits(), {}), 1);
  CheckValue(kOptions[1], 0.75);
  for (const double wrong : {0.0, 101.0, 2.5, std::nan("")})
    EXPECT_THROW(CheckValue(kOptions[0], wrong), InvalidInput) << wrong;
}

}  // namespace
}  // namespace gradsync::ddp
