#ifndef GRADSYNC_TOOLS_RECORDS_LAUNCHES_H_
#define GRADSYNC_TOOLS_RECORDS_LAUNCHES_H_

#include "tools/records/reader.h"

namespace gradsync::tools {

// Puts the launches of one set (`--repeats`) together: measurements whose records name the same
// facts.launch_set, and whose experiment, world size and configuration are the same but for what the run
// decided, become one, with the steps of each launch after those of the one before it
// (Measurement::launches). The first launch gives configuration, provenance and run id. A second measurement
// of one launch stays alone.
void JoinLaunches(RecordSet* records);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_LAUNCHES_H_
