// A profiler for tests. At its first call NVTX loads the library that NVTX_INJECTION64_PATH names, and calls
// the functions of this library. This library appends a line for each call to the file $NVTX_LOG.<process>:
//
//   <thread> domain <name>
//   <thread> category <number> <name>
//   <thread> push <category> <message>
//   <thread> pop
//   <thread> start <range> <category> <message>
//   <thread> end <range>

#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

template <class... Args>
void Log(const char* format, Args... args) {
  static std::FILE* const file = [] {
    const char* const path = std::getenv("NVTX_LOG");
    if (path == nullptr) std::abort();
    return std::fopen((path + ("." + std::to_string(getpid()))).c_str(), "a");
  }();
  const std::string line = "%d " + std::string(format) + "\n";
  std::fprintf(file, line.c_str(), gettid(), args...);
  std::fflush(file);
}

nvtxDomainHandle_t CreateDomain(const char* name) {
  Log("domain %s", name);
  static char domain;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

void NameCategory(nvtxDomainHandle_t, uint32_t category, const char* name) {
  Log("category %u %s", category, name);
}

int Push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  Log("push %u %s", event->category, event->message.ascii);
  return 0;
}

int Pop(nvtxDomainHandle_t) {
  Log("pop");
  return 0;
}

nvtxRangeId_t Start(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  static std::atomic<nvtxRangeId_t> ranges{0};
  const nvtxRangeId_t range = ++ranges;
  Log("start %llu %u %s", static_cast<unsigned long long>(range), event->category, event->message.ascii);
  return range;
}

void End(nvtxDomainHandle_t, nvtxRangeId_t range) { Log("end %llu", static_cast<unsigned long long>(range)); }

template <class Function>
void Replace(NvtxFunctionTable table, NvtxCallbackIdCore2 id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  Replace(table, NVTX_CBID_CORE2_DomainCreateA, CreateDomain);
  Replace(table, NVTX_CBID_CORE2_DomainNameCategoryA, NameCategory);
  Replace(table, NVTX_CBID_CORE2_DomainRangePushEx, Push);
  Replace(table, NVTX_CBID_CORE2_DomainRangePop, Pop);
  Replace(table, NVTX_CBID_CORE2_DomainRangeStartEx, Start);
  Replace(table, NVTX_CBID_CORE2_DomainRangeEnd, End);
  return 1;
}
