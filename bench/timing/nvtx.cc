#include "bench/timing/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace gradsync::bench {
namespace {

class NvtxSink : public RangeSink {
 public:
  NvtxSink() : domain_(nvtxDomainCreateA("gradsync")) {
    for (const RangeKind kind : kRangeKinds) {
      nvtxDomainNameCategoryA(domain_, static_cast<uint32_t>(kind), std::string(Name(kind)).c_str());
    }
  }
  ~NvtxSink() override { nvtxDomainDestroy(domain_); }
  NvtxSink(const NvtxSink&) = delete;
  NvtxSink& operator=(const NvtxSink&) = delete;

  void Push(RangeKind kind, std::string_view name) override {
    const std::string text(name);
    const nvtxEventAttributes_t event = Event(kind, text);
    nvtxDomainRangePushEx(domain_, &event);
  }
  void Pop() override { nvtxDomainRangePop(domain_); }

  uint64_t Start(RangeKind kind, std::string_view name) override {
    const std::string text(name);
    const nvtxEventAttributes_t event = Event(kind, text);
    return nvtxDomainRangeStartEx(domain_, &event);
  }
  void Stop(uint64_t range) override { nvtxDomainRangeEnd(domain_, range); }

 private:
  // The event points to the text.
  static nvtxEventAttributes_t Event(RangeKind kind, const std::string& text) {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = static_cast<uint32_t>(kind);
    event.colorType = NVTX_COLOR_ARGB;
    event.color = Color(kind);
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text.c_str();
    return event;
  }

  // Those of //tools:timeline.
  static uint32_t Color(RangeKind kind) {
    switch (kind) {
      case RangeKind::kStep:
        return 0xff666666;
      case RangeKind::kPhase:
        return 0xff0072b2;
      case RangeKind::kOp:
        return 0xff56b4e9;
      case RangeKind::kCollective:
        return 0xffd55e00;
    }
    return 0;
  }

  const nvtxDomainHandle_t domain_;
};

}  // namespace

bool HaveNvtx() { return true; }

std::unique_ptr<RangeSink> MakeNvtxSink() { return std::make_unique<NvtxSink>(); }

}  // namespace gradsync::bench
