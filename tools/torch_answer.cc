#include "tools/torch_answer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "model/error.h"
#include "tools/tables/words.h"

namespace gradsync::tools {
namespace {

constexpr double kMiB = 1 << 20;

std::string Milliseconds(double seconds) { return absl::StrFormat("%.4g ms", 1e3 * seconds); }
std::string Range(const Interval& seconds) {
  return absl::StrFormat("%.4g to %s", 1e3 * seconds.low, Milliseconds(seconds.high));
}
std::string Signed(double part) { return absl::StrFormat("%+.1f %%", 100 * part); }

bool Overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

std::string CapText(const DdpRow& row) {
  const bool first = row.first_bucket_bytes != row.bucket_bytes;
  return absl::StrFormat("%.4g MiB%s", row.bucket_bytes / kMiB,
                         first ? absl::StrFormat(", the first %.4g", row.first_bucket_bytes / kMiB) : "");
}

class Answer {
 public:
  Answer(const TorchProfile& profile, const Elsewhere& elsewhere, const TorchProfile& measured,
         std::ostream& out)
      : profile_(profile),
        launch_(profile.launches().front()),
        elsewhere_(elsewhere),
        measured_(measured),
        out_(out) {
    own_.passes = launch_.passes;
    if (!launch_.rows.empty()) own_ = launch_.rows.front();
    own_prediction_ = profile.Predict(own_, elsewhere);
  }

  void Print(bool with_measured) {
    PrintModel();
    PrintSizes();
    PrintOptions();
    if (with_measured) PrintMeasured();
  }

 private:
  void PrintModel() {
    out_ << absl::StrFormat(
        "%d parameters, %.4g MB of gradients, %s; %s over %s on %s, threads each: %d; launches: %d\n",
        launch_.parameters.size(), profile_.total_bytes() / 1e6, launch_.optimizer,
        RankCount(launch_.world_size), launch_.backend, launch_.device, launch_.threads,
        profile_.launches().size());
    const int64_t world_size = elsewhere_.world_size > 0 ? elsewhere_.world_size : launch_.world_size;
    if (elsewhere_.world_size > 0 || elsewhere_.wire)
      out_ << "Asked for " << RankCount(world_size) << WireText(elsewhere_) << ".\n";
    out_ << WireAssumption(elsewhere_);
    const bool is_gpu = launch_.device != "cpu", by_file = elsewhere_.link && !elsewhere_.wire;
    const TorchProfile& linked = elsewhere_.link_of != nullptr ? *elsewhere_.link_of : profile_;
    if (!elsewhere_.wire &&
        world_size != (by_file ? elsewhere_.link->world_size : linked.launches().front().world_size))
      out_ << "Assumed: collectives go around a ring.\n";
    const bool is_known =
        by_file ? elsewhere_.link->has_processor : launch_.backend != "none" || elsewhere_.link_of != nullptr;
    if (!elsewhere_.processor && (is_gpu || !is_known))
      out_ << "Assumed: communication takes nothing from computation" << (is_gpu ? " on the GPU.\n" : ".\n");
    out_ << absl::StrFormat("\nYour step takes %s without synchronisation%s.\n",
                            Milliseconds(own_prediction_.none_s),
                            world_size <= launch_.world_size
                                ? ""
                                : absl::StrFormat("; that of the slowest of %d ranks %s, if all vary as here",
                                                  world_size, Milliseconds(own_prediction_.slowest_s)));
    out_ << absl::StrFormat(
        "DistributedDataParallel with buckets of %s will take %s,\n"
        "of which %s are exposed. No schedule of these bytes takes less than %s at the link's typical "
        "pace.\n\n",
        CapText(own_), Range(own_prediction_.step_s.interval), Milliseconds(own_prediction_.exposed_s),
        Milliseconds(own_prediction_.floor_s));
  }

  void PrintSizes() {
    struct OfSize {
      double mib;
      Estimate step;
    };
    std::vector<OfSize> sizes;
    std::vector<PlannedBucket> last;
    out_ << absl::StrFormat("%-16s %8s  %-20s %10s %10s\n", "bucket_cap_mb", "buckets", "step", "cost",
                            "exposed");
    for (const double mib : {1, 2, 5, 10, 25, 50, 100}) {
      DdpRow row = own_;
      row.bucket_bytes = row.first_bucket_bytes = mib * kMiB;
      std::vector<PlannedBucket> buckets = profile_.Buckets(row);
      constexpr auto kBytes = &PlannedBucket::bytes;
      if (std::ranges::equal(buckets, last, {}, kBytes, kBytes)) continue;
      last = std::move(buckets);
      const Prediction prediction = profile_.Predict(row, elsewhere_);
      sizes.push_back({mib, prediction.step_s});
      out_ << absl::StrFormat("%-16g %8d  %-20s %10s %10s\n", mib, last.size(),
                              Range(prediction.step_s.interval), Milliseconds(prediction.cost_s.value),
                              Milliseconds(prediction.exposed_s));
    }
    const OfSize& best =
        *std::ranges::min_element(sizes, {}, [](const OfSize& size) { return size.step.value; });
    std::vector<std::string> as_good;
    for (const OfSize& size : sizes) {
      if (Overlap(size.step.interval, best.step.interval)) as_good.push_back(absl::StrFormat("%g", size.mib));
    }
    if (as_good.size() == sizes.size()) {
      out_ << "Which size of a bucket is best: they differ by less than can be told.\n\n";
    } else if (as_good.size() == 1) {
      out_ << absl::StrFormat("The best bucket size is %s MiB.\n\n", as_good.front());
    } else {
      out_ << absl::StrFormat("The best bucket sizes are %s MiB, which differ by less than can be told.\n\n",
                              Listed(as_good));
    }
  }

  void PrintOption(const std::string& name, const DdpRow& row, const Elsewhere& elsewhere) {
    const double passes = static_cast<double>(row.passes) / static_cast<double>(own_.passes);
    const Estimate step = Scaled(profile_.Predict(row, elsewhere).step_s, 1 / passes);
    const double change = step.value / own_prediction_.step_s.value - 1;
    const bool told = !Overlap(step.interval, own_prediction_.step_s.interval);
    out_ << absl::StrFormat("%-46s %-20s %s\n", name, Range(step.interval),
                            told ? absl::StrFormat("%s (%s)", change < 0 ? "gains" : "loses", Signed(change))
                                 : "makes no difference that can be told");
  }

  void PrintOptions() {
    const auto option = [&](const std::string& name, auto change) {
      DdpRow row = own_;
      change(row);
      PrintOption(name, row, elsewhere_);
    };
    option("no_sync: 4 times the passes, a fourth of it", [](DdpRow& row) { row.passes *= 4; });
    option("bf16_compress_hook", [](DdpRow& row) { row.bf16 = true; });
    option("ZeroRedundancyOptimizer", [](DdpRow& row) { row.zero1 = true; });
    for (const auto& [name, pace] : {std::pair("twice", 2.0), {"half", 0.5}}) {
      Elsewhere other = elsewhere_;
      other.pace *= pace;
      PrintOption(Join("a link that takes ", name, " as long"), own_, other);
    }
  }

  // DDP's settings that differ in sizes of buckets alone.
  struct Size {
    Estimate predicted, measured;
  };
  void PrintOrder(const std::vector<Size>& sizes) {
    int differ = 0, named = 0;
    for (const Size& fast : sizes) {
      for (const Size& slow : sizes) {
        if (!(fast.measured.interval.high < slow.measured.interval.low)) continue;
        if (fast.predicted.value == slow.predicted.value) continue;  // the same buckets
        ++differ;
        named += fast.predicted.value < slow.predicted.value;
      }
    }
    if (differ > 0)
      out_ << absl::StrFormat(
          "Sizes of buckets that differ by more than intervals: %d pairs, the faster one predicted: %d\n",
          differ, named);
  }

  void PrintMeasured() {
    bool first = true;
    std::vector<Size> sizes;
    for (const DdpRow& row : measured_.launches().front().rows) {
      const Estimate measured = measured_.Measured("ddp", row.name);
      if (std::isnan(measured.value)) continue;
      if (first) {
        out_ << absl::StrFormat("\n%-31s %-20s %-22s %-8s %s\n", "DDP", "predicted", "measured", "error",
                                "second run");
      }
      first = false;
      const Prediction prediction = profile_.Predict(row, elsewhere_);
      std::vector<double> planned, rebuilt = row.rebuilt_bucket_bytes;
      for (const PlannedBucket& bucket : profile_.Buckets(row)) planned.push_back(bucket.bytes);
      std::ranges::sort(planned);
      std::ranges::sort(rebuilt);
      if (!row.bf16 && !row.zero1 && row.passes == own_.passes)
        sizes.push_back({prediction.step_s, measured});
      const double again = measured_.SecondRunError(row.name);
      const double half = (measured.interval.high - measured.interval.low) / 2 / measured.value;
      out_ << absl::StrFormat(
          "%-31s %-20s %-22s %-8s %s%s\n", row.name, Range(prediction.step_s.interval),
          Milliseconds(measured.value) + (half >= 0 ? absl::StrFormat(" +- %.1f %%", 100 * half) : ""),
          Signed(prediction.step_s.value / measured.value - 1), std::isnan(again) ? "" : Signed(again),
          rebuilt.empty() || planned == rebuilt ? "" : "  DDP made other buckets");
    }
    PrintOrder(sizes);
  }

  const TorchProfile& profile_;
  const TorchLaunch& launch_;
  const Elsewhere& elsewhere_;
  const TorchProfile& measured_;
  std::ostream& out_;
  DdpRow own_{.name = "DDP"};
  Prediction own_prediction_;
};

}  // namespace

void PrintTorchAnswer(const TorchProfile& profile, const Elsewhere& elsewhere, const TorchProfile* measured,
                      std::ostream& out) {
  Require(measured == nullptr || measured->HasModelOf(profile),
          "--at: a recording of other parameters or passes");
  Answer answer(profile, elsewhere, measured == nullptr ? profile : *measured, out);
  answer.Print(measured != nullptr || !elsewhere.is_given());
}

}  // namespace gradsync::tools
