#include "bench/timing/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace gradsync::bench {
namespace {

// Colors by kind, equal to the colors in timelines of //tools:report.
constexpr uint32_t kColors[] = {0xff666666, 0xff0072b2, 0xff56b4e9, 0xffd55e00};

class NvtxSink : public RangeSink {
 public:
  NvtxSink() : domain_(nvtxDomainCreateA("gradsync")) {
    for (const RangeKind kind : kRangeKinds)
      nvtxDomainNameCategoryA(domain_, static_cast<uint32_t>(kind), std::string(Name(kind)).c_str());
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
    event.color = kColors[static_cast<int>(kind) - 1];
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text.c_str();
    return event;
  }

  const nvtxDomainHandle_t domain_;
};

}  // namespace

bool HaveNvtx() { return true; }

std::unique_ptr<RangeSink> MakeNvtxSink() { return std::make_unique<NvtxSink>(); }

}  // namespace gradsync::bench
