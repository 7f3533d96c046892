// What the strategies send, and when, of which each rank updates a part of the weights.
#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "ddp/schedule_suite.h"

namespace gradsync::ddp {
namespace {

// Every parameter that is read waits for its bucket.
Events WithoutRepeatedWaits(Events events) {
  events.erase(
      std::ranges::unique(events, [](auto& a, auto& b) { return a == b && a.starts_with("wait"); }).begin(),
      events.end());
  return events;
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

// Whole matrices: a bucket has as many for each rank, and padding for those that the last one lacks.
TEST_F(ScheduleTest, OwnedReducesMatricesToTheirOwners) {
  Make("owned");
  const Events expected = {"grad 4",
                           "grad 3",
                           "reduce_scatter 262144",
                           "grad 2",
                           "grad 1",
                           "reduce_scatter 262144",
                           "grad 0",
                           "reduce_scatter 262144",
                           "update",
                           "wait reduce_scatter 262144",
                           "all_gather 524288",
                           "wait reduce_scatter 262144",
                           "all_gather 524288",
                           "wait all_gather 524288",
                           "wait reduce_scatter 262144",
                           "all_gather 524288",
                           "wait all_gather 524288",
                           "wait all_gather 524288"};
  EXPECT_EQ(StepAndUpdate(), expected);
  EXPECT_EQ(StepAndUpdate(), expected);
  EXPECT_DOUBLE_EQ(strategy_->largest_work().value(), 6.0 / 5);  // three matrices, of two and a half
  // Weights that are in common memory are not gathered.
  group_.has_common_memory = true;
  Make("owned");
  StepAndUpdate();
  EXPECT_EQ(std::ranges::count_if(log_, [](auto& e) { return e.starts_with("all_gather"); }), 0);
  // With gather=forward the next forward waits, the first layer for its own alone.
  Make("owned", 2 * kBytes, {{"gather", 1}});
  StepAndUpdate();
  log_.clear();
  strategy_->BeginStep();
  model_.params()[0]->ForwardValue();
  EXPECT_EQ(log_, Events{"wait all_gather 524288"});
  strategy_->CompleteValues();
}

// When a step ends weights are on their way, the first layers' first; the next forward waits for each when it
// reads it.
TEST_F(ScheduleTest, Zero1LeavesWeightsToTheNextForward) {
  Make("zero1", 2 * kBytes, {{"gather", 1}});
  const Events expected = {"wait all_gather 262144",  // forward: 0
                           "wait all_gather 524288",  // 1 to 4
                           "grad 4",
                           "grad 3",
                           "reduce_scatter 262144",
                           "grad 2",
                           "grad 1",
                           "reduce_scatter 262144",
                           "grad 0",
                           "reduce_scatter 131072",
                           "wait all_gather 524288",  // before the update writes to them
                           "wait all_gather 262144",
                           "update",
                           "wait reduce_scatter 262144",
                           "wait reduce_scatter 131072",
                           "all_gather 262144",
                           "all_gather 524288",
                           "all_gather 524288"};
  StepAndUpdate();  // In it weights come to their place.
  for (int step = 0; step < 2; ++step) EXPECT_EQ(WithoutRepeatedWaits(StepAndUpdate()), expected);
  EXPECT_EQ(strategy_->plan().SentBytes(2), 5.0 * kBytes);
  EXPECT_EQ(strategy_->plan().buckets.front().params.front(), model_.params().front());
  // The first layer waits for its own alone.
  log_.clear();
  strategy_->BeginStep();
  model_.params()[0]->ForwardValue();
  EXPECT_EQ(log_, Events{"wait all_gather 262144"});
  // Neither evaluation nor a new training finds any on its way.
  for (const auto& ends : {+[](Strategy& s) { s.CompleteValues(); }, +[](Strategy& s) { s.Reset(); }}) {
    StepAndUpdate();
    log_.clear();
    ends(*strategy_);
    EXPECT_EQ(std::ranges::count_if(log_, [](auto& e) { return e.starts_with("wait all_gather"); }), 3);
  }
  strategy_->CompleteValues();
  log_.clear();
  model_.params()[0]->ForwardValue();
  EXPECT_EQ(log_, Events());
  strategy_.reset();
  EXPECT_EQ(model_.params()[0]->own_bytes(), kBytes);
}

// What ranks keep is in parts where it is sharded; memory of the parameters' own goes back to the system if
// no other strategy needs it.
TEST_F(ScheduleTest, PartsAreWhatIsKept) {
  const auto numel = [](const std::vector<Tensor>& parts) {
    int64_t sum = 0;
    for (const Tensor& part : parts) sum += part.numel();
    return sum;
  };
  for (const std::string& name : StrategyNames()) {
    const Traits& traits = TraitsOf(name);
    if (traits.agreement != Agreement::kExact) continue;
    Make(name);
    StepAndUpdate();
    const Strategy::Parts parts = strategy_->parts();
    EXPECT_EQ(numel(parts.values), traits.shards_values ? 5 * kNumel / 2 : 0) << name;
    EXPECT_EQ(numel(parts.grads), traits.shards_grads ? 5 * kNumel / 2 : 0) << name;
  }
  for (const bool is_alone : {false, true}) {
    for (const auto& [name, values, is_common] : std::vector<std::tuple<std::string, Values, bool>>{
             {"zero3", {}, false}, {"zero1", {{"gather", 1}}, false}, {"zero1", {}, true}}) {
      const TestModel model(std::vector<int64_t>(5, kNumel));
      group_.has_common_memory = is_common;
      const Tensor own = model.params()[4]->value();
      const float weight = own.ToVector<float>()[kNumel / 2];
      const float own_part = own.ToVector<float>()[kNumel / 4];
      ASSERT_NE(weight, 0);
      ASSERT_NE(own_part, 0);
      const std::vector<model::Parameter*>& params = model.params();
      StrategyContext context = {.params = params, .group = group_, .options = {}};
      context.options.is_alone = is_alone;
      context.options.values = values;
      context.units = {params};
      const auto strategy = MakeStrategy(name, context);
      // Already then, so that there is room for the optimizer's state.
      const bool is_left = is_alone && !is_common;
      EXPECT_EQ(own.ToVector<float>()[kNumel / 2], is_left ? 0 : weight) << name;
      strategy->BeginStep();
      EXPECT_EQ(own.ToVector<float>()[kNumel / 2], is_alone ? 0 : weight) << name;
      if (!is_common) {
        // Training begins again from what has been written since.
        const std::vector<float> sevens(kNumel, 7);
        for (model::Parameter* const param : params) {
          param->TakeBack();
          param->MutableValue().CopyFrom(
              Tensor::From<float>(model.device(), {kNumel, 1}, std::span<const float>(sevens)));
        }
        strategy->Reset();
        strategy->BeginStep();
        EXPECT_EQ(params[4]->ForwardValue().ToVector<float>(), sevens) << name;
        continue;
      }
      // What is in common memory stays there when training begins again.
      EXPECT_EQ(params[4]->value().ToVector<float>()[kNumel / 4], own_part) << name;
      strategy->Reset();
      strategy->BeginStep();
      EXPECT_EQ(params[4]->value().ToVector<float>()[kNumel / 4], own_part) << name;
    }
  }
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

// Every pass is reduced; the memory is that of one.
TEST_F(ScheduleTest, Zero2SendsEveryPassIfItAddsUpParts) {
  Make("zero2", kBytes);
  EXPECT_FALSE(strategy_->needs_every_pass());
  const size_t allocated = group_.allocated_bytes();
  Make("zero2", kBytes, {{"accumulate_parts", 1}});
  EXPECT_EQ(group_.allocated_bytes(), 2 * allocated);
  ASSERT_TRUE(strategy_->needs_every_pass());
  const auto pass = [&] {
    model::Backward(model_.Loss(0, 0), model_.params(),
                    [&](model::Parameter& p) { strategy_->OnGradReady(p); });
  };
  strategy_->BeginStep();
  for (int i = 0; i < 2; ++i) {
    pass();
    strategy_->EndPass();
    for (model::Parameter* const param : model_.params()) EXPECT_FALSE(param->has_grad());
  }
  pass();
  strategy_->Finish();
  EXPECT_EQ(std::ranges::count(log_, "reduce_scatter 131072"), 15);
  EXPECT_EQ(std::ranges::count(log_, "wait reduce_scatter 131072"), 15);
  // Halves of three sums and of the weights, to one other rank.
  EXPECT_EQ(strategy_->plan().SentBytes(2), (3 + 1) * 5 * kBytes / 2.0);
  StepAndUpdate();
  EXPECT_EQ(strategy_->plan().SentBytes(2), 5.0 * kBytes);
}

// Forward reads a unit when it has been gathered, and the next one is on its way; so does backward. The last
// two of forward are there when backward begins; the first is gathered again, when the last has been reduced.
TEST_F(ScheduleTest, Zero3GathersWhatIsReadNext) {
  Make("zero3");
  const Events expected = {"all_gather 524288",  // forward: units 0 and 1
                           "all_gather 524288",
                           "wait all_gather 524288",
                           "all_gather 262144",  // 2, when 1 is read
                           "wait all_gather 524288",
                           "wait all_gather 262144",
                           "grad 4",  // backward: 2
                           "reduce_scatter 131072",
                           "wait all_gather 262144",
                           "all_gather 524288",  // 0 again, when 1 is used
                           "wait all_gather 524288",
                           "grad 3",
                           "wait all_gather 524288",
                           "grad 2",
                           "reduce_scatter 262144",
                           "wait all_gather 524288",
                           "wait reduce_scatter 131072",  // to use its memory for gradients of 0
                           "wait all_gather 524288",
                           "grad 1",
                           "wait all_gather 524288",
                           "grad 0",
                           "reduce_scatter 262144",
                           "wait all_gather 524288",
                           "update",
                           "wait reduce_scatter 262144"};
  for (int step = 0; step < 2; ++step) {
    EXPECT_EQ(WithoutRepeatedWaits(StepAndUpdate()), expected);
  }
}

// Never more units than the window are on their way or in use: forward stops at what it reads, and prefetch
// units.
TEST_F(ScheduleTest, Zero3GathersAsFarAheadAsItIsTold) {
  for (const int prefetch : {0, 1, 2}) {
    Make("zero3", 2 * kBytes, {{"prefetch", prefetch}});
    for (model::Parameter* const param : model_.params()) param->ResetGrad();
    log_.clear();
    strategy_->BeginStep();
    EXPECT_EQ(std::ranges::count_if(log_, IsSend), 0);
    for (int unit = 0; unit < 3; ++unit) {
      model_.params()[static_cast<size_t>(2 * unit)]->ForwardValue();
      EXPECT_EQ(std::ranges::count_if(log_, IsSend), std::min(3, unit + 1 + prefetch)) << prefetch;
    }
    // Forward has gone on, and does not come back.
    EXPECT_THROW(model_.params()[0]->ForwardValue(), std::logic_error);
  }
}

// Weights that may be read at any time, such as tied ones, are gathered before the step's first read, once
// for all passes. Their gradients are in memory of the group from the beginning of a pass, whenever they are
// ready, and are reduced when all others are.
TEST_F(ScheduleTest, Zero3GathersOnceWhatIsReadAtAnyTime) {
  units_ = {{0}, {1}, {3}};  // {2, 4} are in none
  Make("zero3", 2 * kBytes, {{"prefetch", 0}});
  strategy_->BeginStep();
  const Events at_any_time = {"all_gather 524288"};
  EXPECT_EQ(log_, at_any_time);
  for (const size_t i : {2, 4}) EXPECT_TRUE(group_.Holds(model_.params()[i]->grad()));
  for (const size_t i : {0, 1, 3}) EXPECT_FALSE(model_.params()[i]->has_grad());
  model_.params()[4]->ForwardValue();
  model_.params()[0]->ForwardValue();
  EXPECT_EQ(log_, (Events{"all_gather 524288", "wait all_gather 524288", "all_gather 262144",
                          "wait all_gather 262144"}));
  // Backward comes to them first and last; they do not bring it to another unit.
  Events events = Step({4, 2, 0, 1, 2, 3, 4});
  std::erase_if(events, [](const std::string& event) { return event.starts_with("wait"); });
  const Events expected = {"all_gather 524288",
                           "all_gather 262144",
                           "all_gather 262144",
                           "all_gather 262144",
                           "grad 4",
                           "grad 3",
                           "reduce_scatter 131072",
                           "grad 2",
                           "all_gather 262144",
                           "grad 1",
                           "reduce_scatter 131072",
                           "all_gather 262144",
                           "grad 0",
                           "reduce_scatter 131072",
                           "grad 2",
                           "grad 4",
                           "reduce_scatter 262144"};
  EXPECT_EQ(events, expected);
  strategy_->EndPass();
  for (const size_t i : {2, 4}) EXPECT_TRUE(group_.Holds(model_.params()[i]->grad()));
  EXPECT_EQ(std::ranges::count(log_, "all_gather 524288"), 1);
  // Neither does a gradient that is complete before backward comes to the first unit.
  Make("zero3", 2 * kBytes, {{"prefetch", 0}});
  events = Step();
  EXPECT_EQ(std::ranges::count(events, "reduce_scatter 131072"), 3);
  EXPECT_LT(IndexOf(events, "grad 0"), IndexOf(events, "reduce_scatter 262144"));
}

// Backward may read a unit again while it is there, and not when it has gone on.
TEST_F(ScheduleTest, Zero3sBackwardDoesNotComeBackToAUnit) {
  Make("zero3");
  strategy_->BeginStep();
  for (model::Parameter* const param : model_.params()) param->ForwardValue();
  for (const size_t i : {4, 2, 3, 2}) strategy_->OnUse(*model_.params()[i]);
  EXPECT_THROW(strategy_->OnUse(*model_.params()[4]), std::logic_error);
}

// So many units of weights, and two of gradients: none is written to while the one before it travels.
TEST_F(ScheduleTest, Zero3TakesMemoryForTheUnitsInFlight) {
  units_ = {{0}, {1}, {2}, {3}, {4}};
  const std::vector<std::pair<Values, size_t>> rooms = {
      {{{"prefetch", 0}}, 1}, {{}, 2}, {{{"prefetch", 2}}, 3}, {{{"keep", 1}}, 5}};
  for (const auto& [values, weights] : rooms) {
    const size_t before = group_.allocated_bytes();
    Make("zero3", 2 * kBytes, values);
    EXPECT_EQ(group_.allocated_bytes() - before, (weights + 2) * kBytes) << weights;
  }
}

// With keep=1 as much as zero2; without, what forward does not leave for backward once more.
TEST_F(ScheduleTest, Zero3SendsThreeVectorsLessWhatStays) {
  const auto sent = [&](const Values& values) {
    Make("zero3", 2 * kBytes, values);
    StepAndUpdate();
    EXPECT_EQ(group_.bytes().size(), strategy_->plan().buckets.size());
    return strategy_->plan().SentBytes(2) / (kBytes / 2.0);
  };
  Make("zero2");
  const double zero2 = strategy_->plan().SentBytes(2) / (kBytes / 2.0);
  EXPECT_EQ(zero2, 10);
  EXPECT_EQ(sent({{"keep", 1}}), zero2);
  EXPECT_EQ(sent({{"unit", 1}}), zero2);
  EXPECT_EQ(sent({{"prefetch", 0}}), 15 - 1);
  EXPECT_EQ(sent({}), 15 - 3);
  EXPECT_EQ(sent({{"prefetch", 2}}), 15 - 5);
}

// A rank sends the same, in the same order, whichever parameters it uses.
TEST_F(ScheduleTest, Zero3SendsTheSameWhateverIsUsed) {
  const auto sends = [&](const std::vector<size_t>& uses) {
    Make("zero3", 2 * kBytes, {{"prefetch", 0}});
    Events events = Step(uses);
    std::erase_if(events, [](const std::string& event) { return !IsSend(event); });
    return events;
  };
  const Events all = sends({0, 1, 2, 3, 4});
  EXPECT_EQ(all.size(), 8u);
  for (const std::vector<size_t>& uses :
       {std::vector<size_t>{0}, {4}, {2, 3}, {0, 4}, {1, 2}, {3, 4}, {0, 1, 1, 0, 3}})
    EXPECT_EQ(sends(uses), all);
}

// What is read when it is not there is an error, and not a stale number; whole values are asked for.
TEST_F(ScheduleTest, Zero3sWeightsAreWholeInAStepOrWhenAskedFor) {
  Make("zero3");
  const std::vector<float> initial = model_.params()[0]->value().ToVector<float>();
  strategy_->CompleteValues();  // They are: there has been no step.
  EXPECT_EQ(model_.params()[0]->value().ToVector<float>(), initial);
  StepAndUpdate();
  EXPECT_THROW(model_.params()[0]->ForwardValue(), std::logic_error);
  EXPECT_EQ(model_.params()[0]->own_bytes(), 0u);
  strategy_->CompleteValues();
  // Here the other rank's part is the same.
  const std::vector<float> whole = model_.params()[0]->ForwardValue().ToVector<float>();
  EXPECT_EQ(whole, initial);
  const std::vector<float> other = model_.params()[1]->value().ToVector<float>();
  EXPECT_EQ(other, initial);
  StepAndUpdate();
  strategy_.reset();
  EXPECT_EQ(model_.params()[0]->own_bytes(), kBytes);
  EXPECT_NO_THROW(model_.params()[0]->ForwardValue());
}

}  // namespace
}  // namespace gradsync::ddp
