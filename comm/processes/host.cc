#include "comm/processes/host.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace gradsync::comm {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string BootIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  return file >> boot ? boot : HostName();
}

std::string HostIdentity() {
  const std::string boot = BootIdentity();
  struct stat network {};
  return stat("/proc/self/ns/net", &network) == 0 ? absl::StrCat(boot, "/", network.st_ino) : boot;
}

}  // namespace gradsync::comm
