// What LLVM asks of a system, where there is none: no files, no processes, no terminal, no clock.
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

namespace llvm::sys {
static std::error_code none() { return std::make_error_code(std::errc::function_not_supported); }

std::error_code ChangeStdinMode(fs::OpenFlags) { return {}; }
std::error_code ChangeStdoutMode(fs::OpenFlags) { return {}; }
void RunInterruptHandlers() {}

Expected<unsigned> Process::getPageSize() { return 65536; }
size_t Process::GetMallocUsage() { return 0; }
void Process::GetTimeUsage(TimePoint<> &elapsed, std::chrono::nanoseconds &user, std::chrono::nanoseconds &system) {
  elapsed = {};
  user = system = {};
}
std::optional<std::string> Process::GetEnv(StringRef) { return std::nullopt; }
unsigned Process::GetRandomNumber() { return 0; }
bool Process::FileDescriptorIsDisplayed(int) { return false; }
bool Process::FileDescriptorHasColors(int) { return false; }
bool Process::ColorNeedsFlush() { return false; }
const char *Process::OutputBold(bool) { return ""; }
const char *Process::OutputColor(char, bool, bool) { return ""; }
const char *Process::OutputReverse() { return ""; }
const char *Process::ResetColor() { return ""; }
std::error_code Process::SafelyCloseFileDescriptor(int) { return {}; }

ProcessInfo::ProcessInfo() : Pid(0), Process(0), ReturnCode(0) {}
ErrorOr<std::string> findProgramByName(StringRef, ArrayRef<StringRef>) { return none(); }
int ExecuteAndWait(StringRef, ArrayRef<StringRef>, std::optional<ArrayRef<StringRef>>, ArrayRef<std::optional<StringRef>>,
                   unsigned, unsigned, std::string *, bool *, std::optional<ProcessStatistics> *, BitVector *) {
  return -1;
}
ProcessInfo ExecuteNoWait(StringRef, ArrayRef<StringRef>, std::optional<ArrayRef<StringRef>>,
                          ArrayRef<std::optional<StringRef>>, unsigned, std::string *, bool *, BitVector *, bool) {
  return {};
}

namespace path {
bool home_directory(SmallVectorImpl<char> &) { return false; }
void system_temp_directory(bool, SmallVectorImpl<char> &) {}
} // namespace path

namespace fs {
const file_t kInvalidFile = -1;
file_t getStdinHandle() { return 0; }
std::error_code access(const Twine &, AccessMode) { return none(); }
std::error_code status(int, file_status &) { return none(); }
std::error_code status(const Twine &, file_status &, bool) { return none(); }
std::error_code create_directory(const Twine &, bool, perms) { return none(); }
std::error_code current_path(SmallVectorImpl<char> &) { return none(); }
std::error_code set_current_path(const Twine &) { return none(); }
std::error_code real_path(const Twine &, SmallVectorImpl<char> &, bool) { return none(); }
std::error_code is_local(const Twine &, bool &) { return none(); }
std::error_code remove(const Twine &, bool) { return none(); }
std::error_code closeFile(file_t &) { return none(); }
std::error_code lockFile(int, LockKind) { return none(); }
std::error_code unlockFile(int) { return none(); }
std::error_code openFile(const Twine &, int &, CreationDisposition, FileAccess, OpenFlags, unsigned) { return none(); }
std::error_code openFileForRead(const Twine &, int &, OpenFlags, SmallVectorImpl<char> *) { return none(); }
Expected<file_t> openNativeFileForRead(const Twine &, OpenFlags, SmallVectorImpl<char> *) { return errorCodeToError(none()); }
Expected<size_t> readNativeFile(file_t, MutableArrayRef<char>) { return errorCodeToError(none()); }
Expected<size_t> readNativeFileSlice(file_t, MutableArrayRef<char>, uint64_t) { return errorCodeToError(none()); }
TimePoint<> basic_file_status::getLastModificationTime() const { return {}; }
UniqueID file_status::getUniqueID() const { return {}; }
ErrorOr<basic_file_status> directory_entry::status() const { return none(); }
std::error_code detail::directory_iterator_construct(DirIterState &, StringRef, bool) { return none(); }
std::error_code detail::directory_iterator_destruct(DirIterState &) { return {}; }
std::error_code detail::directory_iterator_increment(DirIterState &) { return none(); }
mapped_file_region::mapped_file_region(file_t, mapmode, size_t, uint64_t, std::error_code &error) { error = none(); }
int mapped_file_region::alignment() { return 65536; }
void mapped_file_region::unmapImpl() {}
void mapped_file_region::dontNeedImpl() {}
void mapped_file_region::willNeedImpl() {}
} // namespace fs
} // namespace llvm::sys
