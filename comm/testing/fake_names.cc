// For tests: names that are in no host file and on no name server.
#include <dlfcn.h>
#include <netdb.h>

#include <chrono>
#include <string>
#include <thread>

namespace {

using Resolver = decltype(&getaddrinfo);

Resolver SystemResolver() {
  static const auto resolver = reinterpret_cast<Resolver>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return resolver;
}

}  // namespace

// Replaces the system's function for two names: "silent.test", whose name server does not answer for a
// minute, and "two.test", which has two addresses of loopback.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** list) {
  const std::string name = node == nullptr || (hints->ai_flags & AI_NUMERICHOST) != 0 ? "" : node;
  if (name == "silent.test") {
    std::this_thread::sleep_for(std::chrono::minutes(1));
    return EAI_AGAIN;
  }
  if (name != "two.test") return SystemResolver()(node, service, hints, list);
  const int error = SystemResolver()("127.0.0.1", service, hints, list);
  return error != 0 ? error : SystemResolver()("127.0.0.2", service, hints, &(*list)->ai_next);
}
