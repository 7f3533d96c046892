#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/buckets/bucket.h"
#include "ddp/factory.h"
#include "ddp/test_model.h"
#include "model/base/test_errors.h"  // IWYU pragma: export

// ScheduleTest is a fixture for tests that check which collectives a strategy issues, and when it issues them
// relative to the computation of gradients. These tests need no clock: a log of events shows that
// communication overlaps with backward if a collective is issued before the last gradient is computed.
namespace gradsync::ddp {

using model::Tensor;

// A process group without communication, which acts as rank 0 of two ranks. An all-gather copies this rank's
// data to the output's parts for both ranks; the other collectives leave all data unchanged. The group
// appends each collective, and each wait for a collective other than a barrier, to the log of a ScheduleTest.
class LoggingGroup : public comm::ProcessGroup {
 public:
  explicit LoggingGroup(std::vector<std::string>& log) : ProcessGroup(0, 2), log_(log) {}

  std::string_view backend() const override { return "logging"; }

  Tensor Allocate(const model::DevicePtr& device, model::Shape shape, model::DType dtype) override {
    Tensor tensor = Tensor::Empty(device, std::move(shape), dtype);
    allocated_bytes_ += tensor.nbytes();
    const auto* const begin = static_cast<const std::byte*>(tensor.raw_data());
    allocated_.emplace_back(begin, begin + tensor.nbytes());
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
          // Copies `input` by memmove, because Tensor::CopyFrom would also call Tensor::CountWrite, which a
          // real all-gather does not call.
          const Tensor part = output.Slice(rank * input.numel(), input.shape());
          std::memmove(part.raw_data(), input.raw_data(), input.nbytes());
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
  std::function<void(const std::string& what)> on_wait = {};  // called before a wait is logged
  std::function<void()> on_barrier = {};
  size_t allocated_bytes() const { return allocated_bytes_; }
  bool Holds(const Tensor& tensor) const {
    return std::ranges::any_of(allocated_, [&](const auto& memory) {
      return tensor.raw_data() >= memory.first && tensor.raw_data() < memory.second;
    });
  }
  bool has_common_memory = false;

 private:
  // The state of the comm::Work that LoggingGroup::Issue returns for a collective other than a barrier. Wait
  // logs "wait " and the text that Issue has logged for the collective, such as "wait reduce 262144" (bytes).
  class Issued : public comm::Work::State {
   public:
    Issued(LoggingGroup& group, std::string name) : group_(group), name_(std::move(name)) {}
    void Wait() override {
      if (group_.on_wait) group_.on_wait(name_);
      group_.log_.push_back("wait " + name_);
    }
    comm::Interval interval() override { return {}; }
    bool Done() override { return true; }

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
  std::vector<std::pair<const std::byte*, const std::byte*>> allocated_;  // begin and end of each allocation
};

using Events = std::vector<std::string>;

class ScheduleTest : public testing::Test {
 protected:
  // The model that the tests train has five parameters of 256 KiB each. The function Make makes a strategy
  // for these parameters. StrategyOptions::bucket_bytes is 512 KiB, unless Make gets another value.
  static constexpr int64_t kNumel = 64 << 10;
  static constexpr size_t kBytes = size_t{256} << 10;

  using Values = std::map<std::string, double, std::less<>>;  // values of options

  void Make(std::string_view name, size_t bucket_bytes = 2 * kBytes, const Values& values = {}) {
    const std::vector<model::Parameter*>& p = model_.params();
    StrategyContext context = {.params = p, .group = group_, .options = {}};
    context.options.bucket_bytes = bucket_bytes;
    context.options.values = values;
    for (const std::vector<size_t>& unit : units_) {
      std::vector<model::Parameter*>& params = context.units.emplace_back();
      for (const size_t i : unit) params.push_back(p[i]);
    }
    strategy_ = MakeStrategy(name, context);
  }

  // Runs one training step without the update of the weights, and returns the log of this step: collectives,
  // waits for them and computed gradients, in order. The entry "grad i" means that backward computes what one
  // use of parameter i adds to its gradient.
  std::vector<std::string> Step() { return Step(model_.Once()); }
  std::vector<std::string> Step(const std::vector<size_t>& uses, const TestModel::RowsOfUse& rows = {}) {
    log_.clear();
    group_.bytes().clear();
    for (model::Parameter* param : model_.params()) param->ResetGrad();
    strategy_->BeginStep();
    const model::Var loss = model_.Loss(
        0, 0, uses, [this](int i) { log_.push_back("grad " + std::to_string(i)); }, rows);
    model::Backward(
        TestModel::Scaled(loss, strategy_->loss_scale()), model_.params(),
        [this](model::Parameter& p) { strategy_->OnGradReady(p); },
        [this](const model::Parameter& p) { strategy_->OnUse(p); });
    strategy_->Finish();
    return log_;
  }

  // Calls Step, appends "update" to the log, updates the weights by gradient descent (model::Sgd), and
  // returns the log.
  Events StepAndUpdate() {
    Step();
    log_.push_back("update");
    strategy_->Update(optimizer_);
    return log_;
  }

  // Makes the strategy `name`, and returns whether its BeginStep calls Parameter::PlaceGrad for every
  // parameter.
  bool PlacesGradients(const std::string& name) {
    Make(name);
    bool places = true;
    const Tensor place = Tensor::Zeros(model_.device(), {kNumel, 1}, model::DType::kF32);
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

  std::vector<std::vector<size_t>> units_ = {{0, 1}, {2, 3}, {4}};
  std::vector<std::string> log_;
  LoggingGroup group_{log_};
  TestModel model_{std::vector<int64_t>(5, kNumel)};
  std::unique_ptr<Strategy> strategy_;
  model::Sgd optimizer_{model_.params(), {}};
};

inline const Events kGradients = {"grad 4", "grad 3", "grad 2", "grad 1", "grad 0"};

inline Events Concat(Events a, const Events& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace gradsync::ddp
