#pragma once

namespace gradsync {

// Opens those of stdin, stdout and stderr that the program was started without, so that no file or connection
// gets their descriptors. Writing to them fails, as it would without this.
void KeepStandardStreams();

// Returns `status`, or, if all went well except that something printed on stdout could not be written,
// kFailed; then prints the system's reason as a line on stderr.
int WithWrittenOutput(int status);

}  // namespace gradsync
