#include "comm/processes/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include "comm/processes/file_descriptor.h"
#include "comm/processes/temporary_directory.h"

namespace gradsync::comm {
namespace {

using std::chrono::seconds;

ChildProcess::Clock::time_point DeadlineInAMinute() { return ChildProcess::Clock::now() + seconds(60); }

// What comes out of a pipe or socket until its other end is closed.
std::string ReadAll(const FileDescriptor& file) {
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = read(file.get(), bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(count));
  }
  return text;
}

std::vector<std::string> Shell(const std::string& script) { return {"sh", "-c", script}; }

// The standard output of a script.
std::string OutputOf(const std::string& script, ChildOptions options = {}) {
  Pipe pipe = MakePipe();
  options.stdout_fd = pipe.write_end.get();
  ChildProcess child(Shell(script), options);
  pipe.write_end.Close();
  std::string output = ReadAll(pipe.read_end);
  EXPECT_TRUE(child.Wait(DeadlineInAMinute())->ok());
  return output;
}

void ExpectGone(pid_t pid) {
  for (int i = 0; i < 2000 && kill(pid, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_NE(kill(pid, 0), 0) << "process " << pid << " is still there";
}

TEST(ChildProcessTest, TellsHowItEnded) {
  EXPECT_EQ(ChildProcess({"true"}).Wait(DeadlineInAMinute())->shell_status(), 0);
  const auto exited = ChildProcess(Shell("exit 7")).Wait(DeadlineInAMinute());
  EXPECT_EQ(exited->exit_status(), 7);
  EXPECT_EQ(exited->signal(), std::nullopt);
  EXPECT_EQ(ToString(*exited), "exited with status 7");
  const auto killed = ChildProcess(Shell("kill -TERM $$")).Wait(DeadlineInAMinute());
  EXPECT_EQ(killed->signal(), SIGTERM);
  EXPECT_EQ(killed->exit_status(), std::nullopt);
  EXPECT_EQ(killed->shell_status(), 128 + SIGTERM);
  EXPECT_EQ(ToString(*killed), "was killed by signal 15 (SIGTERM)");
}

TEST(ChildProcessTest, NamesWhatItCannotRun) {
  for (const std::string program : {"no-such-program", "/no/such/program"}) {
    try {
      ChildProcess child({program});
      FAIL() << "started";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.what(), "cannot run " + program + ": No such file or directory");
    }
  }
}

TEST(ChildProcessTest, TheProgramMayBeAnotherThanTheFirstWord) {
  Pipe pipe = MakePipe();
  ChildProcess child({"a name", "-c", "echo $0"},
                     {.program = "/bin/bash", .stdout_fd = pipe.write_end.get()});
  pipe.write_end.Close();
  EXPECT_EQ(ReadAll(pipe.read_end), "a name\n");
}

TEST(ChildProcessTest, ChangesTheEnvironment) {
  setenv("CHILD_TEST_KEPT", "kept", 1);
  setenv("CHILD_TEST_CHANGED", "old", 1);
  setenv("CHILD_TEST_REMOVED", "old", 1);
  const std::string values = OutputOf(
      "echo ${CHILD_TEST_KEPT-} ${CHILD_TEST_CHANGED-} ${CHILD_TEST_REMOVED-none} ${CHILD_TEST_NEW-}",
      {.environment = {{"CHILD_TEST_CHANGED", "changed"},
                       {"CHILD_TEST_REMOVED", std::nullopt},
                       {"CHILD_TEST_NEW", "new"}}});
  EXPECT_EQ(values, "kept changed none new\n");
}

TEST(ChildProcessTest, OneSocketServesInputAndOutput) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor own(ends[0]);
  FileDescriptor other(ends[1]);
  ChildProcess child({"cat"}, {.stdin_fd = other.get(), .stdout_fd = other.get()});
  other.Close();
  ASSERT_EQ(write(own.get(), "hello", 5), 5);
  shutdown(own.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(own), "hello");
}

// Standard output and error exchanged: neither is overwritten before it has been put into its place.
TEST(ChildProcessTest, StandardDescriptorsMayChangePlaces) {
  Pipe pipe = MakePipe();
  const FileDescriptor old_error(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  dup2(pipe.write_end.get(), STDERR_FILENO);
  ChildProcess child(Shell("echo to output; echo to error >&2"),
                     {.stdout_fd = STDERR_FILENO, .stderr_fd = STDOUT_FILENO});
  dup2(old_error.get(), STDERR_FILENO);
  pipe.write_end.Close();
  EXPECT_EQ(ReadAll(pipe.read_end), "to output\n");
}

TEST(ChildProcessTest, InheritsNoOtherDescriptorsAndNoBlockedSignals) {
  const FileDescriptor leak(open("/dev/null", O_RDONLY));  // not closed on exec
  const std::string script = "test -e /proc/$$/fd/" + std::to_string(leak.get()) + " || echo none; " +
                             "grep SigBlk /proc/self/status";
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const std::string output = OutputOf(script);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  EXPECT_EQ(output, "none\nSigBlk:\t0000000000000000\n");
}

TEST(ChildProcessTest, WaitsNoLongerThanItIsTold) {
  ChildProcess child({"sleep", "600"});
  EXPECT_EQ(child.end(), std::nullopt);
  EXPECT_EQ(child.Wait(ChildProcess::Clock::now() + std::chrono::milliseconds(20)), std::nullopt);
  child.Signal(SIGINT);
  EXPECT_EQ(child.Wait(DeadlineInAMinute())->signal(), SIGINT);
  child.Signal(SIGINT);  // to nobody
  EXPECT_EQ(child.Kill().signal(), SIGINT);
}

TEST(ChildProcessTest, IsKilledAtTheEndOfItsLife) {
  pid_t pid = 0;
  {
    ChildProcess child({"sleep", "600"});
    pid = child.pid();
    ChildProcess moved = std::move(child);
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

// A pid that a script writes to a pipe before it goes on.
pid_t ReadPid(const FileDescriptor& file) {
  std::string text;
  for (char c; read(file.get(), &c, 1) == 1 && c != '\n';) text += c;
  return std::stoi(text);
}

TEST(ChildProcessTest, TheGroupEndsWithItsHead) {
  for (const std::string ending : {"wait", "exit 0"}) {
    Pipe pipe = MakePipe();
    ChildProcess child(Shell("sleep 600 & echo $!; " + ending),
                       {.stdout_fd = pipe.write_end.get(), .own_group = true});
    pipe.write_end.Close();
    const pid_t grandchild = ReadPid(pipe.read_end);
    if (ending == "wait") child.Kill();
    EXPECT_TRUE(child.Wait(DeadlineInAMinute()).has_value());
    ExpectGone(grandchild);
  }
}

// The parent is killed, and can do nothing for its child.
TEST(ChildProcessTest, DiesWithItsParent) {
  Pipe pipe = MakePipe();
  const pid_t parent = fork();
  if (parent == 0) {
    ChildProcess child(Shell("echo $$; sleep 600"), {.stdout_fd = pipe.write_end.get()});
    child.Wait(DeadlineInAMinute());
    _exit(0);
  }
  const pid_t child = ReadPid(pipe.read_end);
  EXPECT_EQ(kill(child, 0), 0);
  kill(parent, SIGKILL);
  int status = 0;
  waitpid(parent, &status, 0);
  ExpectGone(child);
}

TEST(ChildProcessTest, TellsTheEndAlthoughChildrenAreIgnored) {
  signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(ChildProcess(Shell("exit 7")).Wait(DeadlineInAMinute())->exit_status(), 7);
}

TEST(TemporaryDirectoryTest, GoesWithItsFiles) {
  std::string path;
  {
    const TemporaryDirectory directory;
    path = directory.path();
    std::ofstream(directory.Path("file")) << "text";
    EXPECT_EQ(access(directory.Path("file").c_str(), R_OK), 0);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(TemporaryDirectoryTest, GoesWithAProcessThatIsKilled) {
  Pipe pipe = MakePipe();
  const pid_t owner = fork();
  if (owner == 0) {
    const TemporaryDirectory directory;
    std::ofstream(directory.Path("file")) << "text";
    (void)!write(pipe.write_end.get(), directory.path().data(), directory.path().size());
    (void)!write(pipe.write_end.get(), "\n", 1);
    sleep(600);
  }
  std::string path;
  for (char c; read(pipe.read_end.get(), &c, 1) == 1 && c != '\n';) path += c;
  EXPECT_EQ(access((path + "/file").c_str(), R_OK), 0);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  for (int i = 0; i < 2000 && access(path.c_str(), F_OK) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace gradsync::comm
