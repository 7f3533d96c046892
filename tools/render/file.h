#ifndef GRADSYNC_TOOLS_RENDER_FILE_H_
#define GRADSYNC_TOOLS_RENDER_FILE_H_

#include <functional>
#include <ostream>
#include <string>

namespace gradsync::tools {

// Writes a file beside its place and renames it, so that there is the old one or the whole new one, whatever
// happens. Throws std::runtime_error that names the path and the system's reason.
void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_FILE_H_
