#include "model/base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "model/base/test_errors.h"
#include "model/base/version.h"

namespace gradsync {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr FlagMarks kOrdering{1}, kSizing{2}, kTiming{4};

struct Options {
  bool trace = false;
  int64_t steps = 10;
  std::vector<int64_t> batch_sizes = {2};
  std::string order = "interleaved";
  std::vector<std::string> strategies = {"naive", "core"};
  int64_t bucket_bytes = 25 << 20;
  std::vector<int64_t> sizes = {1 << 20, 10 << 20};
  std::chrono::milliseconds timeout{60000};
  double learning_rate = 0.001;
  std::string weights;
  std::string interface_name;
  std::optional<int64_t> layers;
  std::optional<double> peak, share;

  FlagTable Table() {
    FlagTable table("demo", "Does nothing.");
    table.Add("trace", &trace, Switch(), "Writes a trace.");
    table.Add("steps", &steps, Integer(1, 1000), "Timed steps.", kTiming);
    table.Add("batch_size", &batch_sizes, Integer(1, 100), "Sequences of one rank.");
    table.Add("order", &order, OneOf({"interleaved", "blocks"}), "Order of steps.", kOrdering);
    table.Add("strategies", &strategies, OneOf({"none", "naive", "core"}), "Strategies.");
    table.Add("bucket_bytes", &bucket_bytes, Bytes(), "Bucket capacity.");
    table.Add("sizes", &sizes, Bytes(), "Buffer sizes.", kSizing | kTiming);
    table.Add("timeout", &timeout, Duration(), "Deadline.");
    table.Add("learning_rate", &learning_rate, PositiveNumber(), "Rate.");
    table.Add("weights", &weights, Path("a safetensors file"), "Initial weights.");
    table.Add("interface", &interface_name, Text("a network interface"), "Network.");
    table.Add("num_layers", &layers, Integer(1), "Overrides the model's.", kSizing);
    table.Add("peak", &peak, PositiveNumber(), "Per second.");
    table.Add("share", &share, Percent(), "Of it.");
    return table;
  }
};

void Parse(FlagTable& table, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "demo");
  table.Parse(static_cast<int>(arguments.size()), arguments.data());
}

TEST(FlagTableTest, ReadsEveryKind) {
  Options options;
  FlagTable table = options.Table();
  Parse(table, {"--trace", "--steps=7", "--batch_size", "2,4", "--order=blocks", "--strategies=core,none",
                "--bucket_bytes=1MiB", "--sizes=1MiB,1GiB", "--timeout=500ms", "--learning_rate=0.5",
                "--weights=/a/b", "--num_layers=3", "--interface=eth0", "--peak=790e12", "--share=2.5%"});
  EXPECT_TRUE(options.trace);
  EXPECT_EQ(options.steps, 7);
  EXPECT_THAT(options.batch_sizes, ElementsAre(2, 4));
  EXPECT_EQ(options.order, "blocks");
  EXPECT_THAT(options.strategies, ElementsAre("core", "none"));
  EXPECT_EQ(options.bucket_bytes, 1 << 20);
  EXPECT_THAT(options.sizes, ElementsAre(1 << 20, 1 << 30));
  EXPECT_EQ(options.timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(options.learning_rate, 0.5);
  EXPECT_EQ(options.weights, "/a/b");
  EXPECT_EQ(options.layers, 3);
  EXPECT_EQ(options.peak, 790e12);
  EXPECT_EQ(options.share, 0.025);
  EXPECT_EQ(options.interface_name, "eth0");
  EXPECT_TRUE(table.given("steps"));
}

TEST(FlagTableTest, DurationsTakeUnits) {
  const std::pair<const char*, int> durations[] = {{"--timeout=1.5s", 1500},
                                                   {"--timeout=2m", 120'000},
                                                   {"--timeout=1h", 3'600'000},
                                                   {"--timeout=1m30s", 90'000}};
  for (const auto& [argument, ms] : durations) {
    Options options;
    FlagTable table = options.Table();
    Parse(table, {argument});
    EXPECT_EQ(options.timeout, std::chrono::milliseconds(ms)) << argument;
  }
}

TEST(FlagTableTest, KeepsDefaults) {
  Options options;
  FlagTable table = options.Table();
  Parse(table, {});
  EXPECT_EQ(options.steps, 10);
  EXPECT_EQ(options.layers, std::nullopt);
  EXPECT_EQ(options.peak, std::nullopt);
  EXPECT_FALSE(table.given("steps"));
  EXPECT_FALSE(table.help_requested());
}

TEST(FlagTableTest, TellsValues) {
  Options options;
  FlagTable table = options.Table();
  const auto defaults = table.Values(FlagMarks::kNone);
  Parse(table, {"--steps=7", "--trace"});
  const auto values = table.Values(kOrdering);
  EXPECT_EQ(values.size(), defaults.size() - 1);
  const auto value_of = [](const auto& all, const std::string& name) {
    for (const auto& [flag, value] : all) {
      if (flag == name) return value;
    }
    return std::string("no such flag");
  };
  EXPECT_EQ(value_of(defaults, "--steps"), "10");
  EXPECT_EQ(value_of(values, "--steps"), "7");
  EXPECT_EQ(value_of(values, "--trace"), "true");
  EXPECT_EQ(value_of(values, "--layers"), value_of(defaults, "--layers"));
  EXPECT_EQ(value_of(values, "--order"), "no such flag");
  EXPECT_THAT(table.Given(FlagMarks::kNone), ElementsAre("--trace=true", "--steps=7"));
  EXPECT_THAT(table.Given(kTiming | kSizing), ElementsAre("--trace=true"));
}

struct BadCase {
  std::vector<const char*> arguments;
  const char* line;
};

class BadFlagTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadFlagTest, IsOneClearLine) {
  Options options;
  FlagTable table = options.Table();
  EXPECT_EQ(ErrorOf([&] { Parse(table, GetParam().arguments); }), GetParam().line);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFlagTest,
    ::testing::Values(
        BadCase{{"--sizes=10XB"},
                "--sizes=10XB: expected a byte count such as 4096, 64KiB, 1MiB, 1GiB, or a "
                "comma-separated list without repeats"},
        BadCase{{"--sizes=1MiB,"},
                "--sizes=1MiB,: expected a byte count such as 4096, 64KiB, 1MiB, 1GiB, or a "
                "comma-separated list without repeats"},
        BadCase{{"--sizes=8,64,8"},
                "--sizes=8,64,8: expected a byte count such as 4096, 64KiB, 1MiB, 1GiB, or a "
                "comma-separated list without repeats"},
        BadCase{{"--bucket_bytes=0"},
                "--bucket_bytes=0: expected a byte count such as 4096, 64KiB, 1MiB, 1GiB"},
        BadCase{{"--share=2"}, "--share=2: expected a percentage, at most 100%, such as 2%"},
        BadCase{{"--share=200%"}, "--share=200%: expected a percentage, at most 100%, such as 2%"},
        BadCase{{"--peak=790T"}, "--peak=790T: expected a positive number such as 0.001"},
        BadCase{{"--steps=0"}, "--steps=0: expected an integer from 1 to 1000"},
        BadCase{{"--steps=ten"}, "--steps=ten: expected an integer from 1 to 1000"},
        BadCase{{"--steps="}, "--steps=: expected an integer from 1 to 1000"},
        BadCase{{"--steps"}, "--steps: expected an integer from 1 to 1000 after it"},
        BadCase{
            {"--batch_size=2,x"},
            "--batch_size=2,x: expected an integer from 1 to 100, or a comma-separated list without repeats"},
        BadCase{{"--order=random"}, "--order=random: expected interleaved or blocks"},
        BadCase{{"--order=block"}, "--order=block: expected interleaved or blocks; did you mean blocks?"},
        BadCase{{"--strategies=core,naiv"},
                "--strategies=core,naiv: expected none, naive or core, or a comma-separated list without "
                "repeats; "
                "did you mean naive?"},
        BadCase{{"--no-trace"}, "--no-trace: demo has no such flag; did you mean --trace=false?"},
        BadCase{{"--no_trace"}, "--no_trace: demo has no such flag; did you mean --trace=false?"},
        BadCase{
            {"--strategies=core,ddp"},
            "--strategies=core,ddp: expected none, naive or core, or a comma-separated list without repeats"},
        BadCase{{"--strategies=core,core"},
                "--strategies=core,core: expected none, naive or core, or a comma-separated list without "
                "repeats"},
        BadCase{{"--timeout=60"}, "--timeout=60: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=s"}, "--timeout=s: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=0s"}, "--timeout=0s: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=-1s"}, "--timeout=-1s: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=0.1ms"}, "--timeout=0.1ms: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=1e3s"}, "--timeout=1e3s: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=1d"}, "--timeout=1d: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--timeout=inf"}, "--timeout=inf: expected a duration such as 500ms, 60s, 2m"},
        BadCase{{"--learning_rate=-1"}, "--learning_rate=-1: expected a positive number such as 0.001"},
        BadCase{{"--learning_rate=nan"}, "--learning_rate=nan: expected a positive number such as 0.001"},
        BadCase{{"--weights="}, "--weights=: expected a safetensors file"},
        BadCase{{"--interface="}, "--interface=: expected a network interface"},
        BadCase{{"--num_layers=0"}, "--num_layers=0: expected an integer of at least 1"},
        BadCase{{"--trace=yes"}, "--trace=yes: expected true or false"},
        BadCase{{"--stepz=3"}, "--stepz: demo has no such flag; did you mean --steps?"},
        BadCase{{"--nonsense=3"}, "--nonsense: demo has no such flag; --help lists them"},
        BadCase{{"--steps=3", "--steps=4"}, "--steps: given more than once"},
        BadCase{{"tiny"}, "tiny: expected a flag such as --name=value"},
        BadCase{{"-n"}, "-n: expected a flag such as --name=value"}));

TEST(FlagTableTest, TakesPathsWhereAllowed) {
  Options options;
  FlagTable table = options.Table();
  std::vector<std::string> paths;
  table.AllowPaths(&paths, "directories");
  Parse(table, {"/tmp/a", "--steps", "3", "/tmp/b/../c"});
  EXPECT_THAT(paths, ElementsAre("/tmp/a", "/tmp/c"));
  EXPECT_EQ(options.steps, 3);
  EXPECT_THAT(table.Usage(), HasSubstr("demo takes directories.\n"));
  EXPECT_THROW(Parse(table, {"-a"}), InvalidInput);
}

TEST(FlagTableTest, RefusesWhatIsGivenAndHasNoEffect) {
  Options options;
  FlagTable table = options.Table();
  Parse(table, {"--steps=3", "--sizes=1MiB"});
  EXPECT_EQ(ErrorOf([&] { table.Refuse({"timeout"}, "is not needed"); }), "no error");
  EXPECT_EQ(ErrorOf([&] { table.Refuse({"timeout", "steps"}, "is not needed"); }), "--steps: is not needed");
  EXPECT_EQ(ErrorOf([&] { table.Refuse(kOrdering, "is not needed"); }), "no error");
  EXPECT_EQ(ErrorOf([&] { table.Refuse(kOrdering | kSizing, "is not needed"); }), "--sizes: is not needed");
  EXPECT_EQ(ErrorOf([&] { table.RefuseAllBut(kSizing, "is not needed"); }), "--steps: is not needed");
  EXPECT_EQ(ErrorOf([&] { table.RefuseAllBut(kSizing | kTiming, "is not needed"); }), "no error");
}

TEST(FlagTableTest, TellsTheVersion) {
  Options options;
  FlagTable table = options.Table();
  Parse(table, {"--version", "--unknown"});
  EXPECT_TRUE(table.help_requested());
  EXPECT_EQ(table.Usage(), Join("demo of gradsync ", kVersion, "\n"));
}

TEST(FlagTableTest, UsageNamesEveryFlagWithItsDefault) {
  Options options;
  FlagTable table = options.Table();
  Parse(table, {"--help", "--nonsense"});
  EXPECT_TRUE(table.help_requested());
  const std::string usage = table.Usage();
  EXPECT_THAT(usage, HasSubstr("Does nothing."));
  EXPECT_THAT(usage, ContainsRegex("\n  --sizes=1MiB,10MiB +Buffer sizes[.]\n"));
  EXPECT_THAT(usage, ContainsRegex("\n  --timeout=1m +"));
  EXPECT_THAT(usage, HasSubstr("--help=FLAG"));
  Parse(table, {"--help=sizes"});
  EXPECT_EQ(table.Usage(),
            "--sizes\n    Buffer sizes.\n    Takes a byte count such as 4096, 64KiB, "
            "1MiB, 1GiB, or a comma-separated list without repeats. Default: 1MiB,10MiB.\n");
  Parse(table, {"--help=all"});
  EXPECT_THAT(table.Usage(), AllOf(HasSubstr("--sizes\n"), HasSubstr("--timeout\n")));
  EXPECT_THROW(Parse(table, {"--help=sizez"}), InvalidInput);
}

TEST(FlagTableTest, UsageShowsFlagsByGroups) {
  int64_t steps = 1, batch_size = 2;
  FlagTable table("demo", "Demonstrates flags.");
  table.Add("steps", &steps, Integer(1, 10), "Steps to take, e.g. 3, in a row.\nNot this.");
  table.BeginGroup("Data");
  table.Add("batch_size", &batch_size, Integer(1, 10), "Rows of a batch.");
  EXPECT_EQ(table.Usage(),
            "Demonstrates flags.\n\nFlags of demo:\n"
            "  --steps=1                Steps to take, e.g. 3, in a row.\nData:\n"
            "  --batch_size=2           Rows of a batch.\n"
            "\n--help=FLAG, or a group in small letters, explains in full; --help=all everything.\n");
  Parse(table, {"--help=data"});
  EXPECT_THAT(table.Usage(), AllOf(HasSubstr("--batch_size\n"), Not(HasSubstr("--steps"))));
}

// The others are named by groups, on lines that fit a screen.
TEST(FlagTableTest, UsageBeginsWithWhatIsMostUsed) {
  std::vector<int64_t> values(60, 1);
  FlagTable table("demo", "Demonstrates flags.");
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 30 == 0) table.BeginGroup(Join("Group ", i));
    table.Add(Join("flag", i), &values[i], Integer(1, 10), Join("Sets ", i, ".\nNot this."));
  }
  table.ShowFirst({"flag40", "flag2"});
  const std::string usage = table.Usage();
  EXPECT_THAT(usage, HasSubstr("\n\nMost used:\n  --flag40=1               Sets 40.\n"
                               "  --flag2=1                Sets 2.\n\nGroup 0: --flag0 --flag1 --flag2 "));
  EXPECT_THAT(usage, AllOf(HasSubstr("\nGroup 30: --flag30 --flag31"), HasSubstr(" --flag59\n\n--help=FLAG"),
                           Not(HasSubstr("Not this")), Not(HasSubstr("Sets 3."))));
  std::istringstream lines(usage);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 112) << line;
}

enum class Order { kBlocks, kInterleaved };
std::string_view Name(Order order) { return order == Order::kBlocks ? "blocks" : "interleaved"; }

TEST(FlagTableTest, NamesStandForValues) {
  Order order = Order::kInterleaved;
  std::vector<Order> orders = {Order::kBlocks, Order::kInterleaved};
  bool is_published = true;
  FlagTable table("demo", "");
  table.Add("order", &order, OneOf({Order::kInterleaved, Order::kBlocks}), "Order.");
  table.Add("orders", &orders, OneOf({Order::kInterleaved, Order::kBlocks}), "Orders.");
  table.Add("preset", &is_published, OneOf<bool>({{"scaled", false}, {"published", true}}), "Preset.");
  EXPECT_THAT(table.Usage(), AllOf(HasSubstr("--order=interleaved "), HasSubstr("--preset=published ")));
  EXPECT_EQ(table.Values({}).at(1).second, "blocks,interleaved");
  Parse(table, {"--order=blocks", "--orders=interleaved", "--preset", "scaled"});
  EXPECT_EQ(order, Order::kBlocks);
  EXPECT_THAT(orders, ElementsAre(Order::kInterleaved));
  EXPECT_FALSE(is_published);
  FlagTable again("demo", "");
  again.Add("order", &order, OneOf({Order::kInterleaved, Order::kBlocks}), "Order.");
  EXPECT_EQ(ErrorOf([&] { Parse(again, {"--order=block"}); }),
            "--order=block: expected interleaved or blocks; did you mean blocks?");
}

TEST(ResolvePathTest, ADirectoryThatIsGoneIsNamed) {
  ASSERT_EQ(unsetenv("BUILD_WORKING_DIRECTORY"), 0);
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path gone = std::filesystem::path(::testing::TempDir()) / "gone";
  std::filesystem::create_directory(gone);
  std::filesystem::current_path(gone);
  std::filesystem::remove(gone);
  EXPECT_EQ(ResolvePath("/tmp/x"), "/tmp/x");  // does not count from it
  EXPECT_EQ(ErrorOf([] { ResolvePath("results"); }),
            "the current directory cannot be used: No such file or directory; change to a directory that "
            "exists");
  std::filesystem::current_path(before);
}

TEST(ResolvePathTest, CountsFromWhereTheCommandWasTyped) {
  ASSERT_EQ(setenv("BUILD_WORKING_DIRECTORY", "/home/user/project", 1), 0);
  EXPECT_EQ(ResolvePath("results/a"), "/home/user/project/results/a");
  EXPECT_EQ(ResolvePath("../x"), "/home/user/x");
  EXPECT_EQ(ResolvePath("/tmp/x"), "/tmp/x");
  ASSERT_EQ(unsetenv("BUILD_WORKING_DIRECTORY"), 0);
}

}  // namespace
}  // namespace gradsync
