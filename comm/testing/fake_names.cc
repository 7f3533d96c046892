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

// Replaces the system's function for two kinds of names: "silent.test", whose name server does not answer for
// a minute, and names such as "127.0.0.1+10.0.0.5.test", which have the addresses 127.0.0.1 and 10.0.0.5.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** list) {
  const std::string name = node == nullptr || (hints->ai_flags & AI_NUMERICHOST) != 0 ? "" : node;
  if (name == "silent.test") {
    std::this_thread::sleep_for(std::chrono::minutes(1));
    return EAI_AGAIN;
  }
  const size_t plus = name.find('+'), end = name.rfind(".test");
  if (plus == std::string::npos || end == std::string::npos)
    return SystemResolver()(node, service, hints, list);
  const std::string first = name.substr(0, plus), second = name.substr(plus + 1, end - plus - 1);
  const int error = SystemResolver()(first.c_str(), service, hints, list);
  return error != 0 ? error : SystemResolver()(second.c_str(), service, hints, &(*list)->ai_next);
}
