#include "ddp/factory.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_join.h"
#include "ddp/buckets/bucket.h"
#include "ddp/schedule_suite.h"

namespace gradsync::ddp {
namespace {

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
    if (const std::string_view passes = traits.OptionFor(Option::Role::kPasses); !passes.empty()) {
      Make(name, kBytes, {{std::string(passes), 1}});
      EXPECT_TRUE(strategy_->needs_every_pass()) << name;
    }
    EXPECT_EQ(PlacesGradients(name), traits.places_gradients) << name;
    for (model::Parameter* param : model_.params()) param->PlaceGrad({});
    strategy_.reset();
    const auto bytes_in_use = [&] { return model_.device()->allocator().stats().bytes_in_use; };
    const auto before = bytes_in_use();
    const double rounding = kBytes / 64;  // of messages to whole elements and blocks of memory
    for (const bool views : {false, true}) {
      if (!views && traits.FindOption("views") == nullptr) continue;
      const StrategyOptions options = {.values = views ? Values{} : Values{{"views", 0}}};
      strategy_.reset();
      Make(name, 2 * kBytes, options.values);
      const auto buffers = static_cast<double>(bytes_in_use() - before);
      const double copies = CopiesOf(traits, options, 2, /*largest_unit=*/0.4);
      // Two ranks that own whole matrices have a place for three of the five each.
      const int matrices = traits.shards_state && !traits.divides_matrices ? 6 : 5;
      EXPECT_LE(buffers, copies * matrices * kBytes + rounding) << name;
      EXPECT_GT(buffers + 2 * kBytes, copies * 5 * kBytes * (views ? 0 : 1)) << name;
      EXPECT_EQ(buffers >= kBytes, copies > 0) << name;
    }
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

TEST(FactoryTest, ListsBeginWithTheSimplest) {
  const std::vector<std::string> names = StrategyNames();
  EXPECT_EQ(names.front(), FloorTraits().name);
  EXPECT_TRUE(
      std::ranges::is_sorted(names, {}, [](const std::string& name) { return TraitsOf(name).position; }));
  EXPECT_LT(std::ranges::find(names, "naive"), std::ranges::find(names, "core"));
}

TEST(FactoryTest, BadInputIsNamed) {
  std::vector<std::string> log;
  LoggingGroup group(log);
  const TestModel model({1});
  EXPECT_EQ(ErrorOf([&] { MakeStrategy("fast", {.params = model.params(), .group = group, .options = {}}); }),
            "unknown strategy 'fast', expected one of " + absl::StrJoin(StrategyNames(), ", "));
  EXPECT_THROW(MakeStrategy("core", {.params = {}, .group = group, .options = {}}), InvalidInput);
  EXPECT_THROW(MakeStrategy("core", {.params = model.params(), .group = group, .options = {0}}),
               InvalidInput);
  const StrategyOptions unknown = {.values = {{"speed", 3}}};
  EXPECT_THROW(MakeStrategy("core", {.params = model.params(), .group = group, .options = unknown}),
               InvalidInput);
}

TEST(FactoryTest, ValuesOfOptionsAreCheckedAndHaveDefaults) {
  static constexpr Option kOptions[] = {
      {.name = "every", .meaning = "", .default_value = 8, .range = {1, 100}, .role = Option::Role::kPeriod},
      {.name = "rate", .meaning = "", .has_fractions = true, .default_value = 0.5}};
  const Traits traits = {.name = "new", .summary = "", .options = kOptions};
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
