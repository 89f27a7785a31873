// What LLVM asks of a system, where there is none: no files, no processes, no terminal.
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

namespace llvm::sys {
std::error_code ChangeStdinMode(fs::OpenFlags) { return {}; }
std::error_code ChangeStdoutMode(fs::OpenFlags) { return {}; }
void RunInterruptHandlers() {}
Expected<unsigned> Process::getPageSize() { return 65536; }
bool Process::FileDescriptorIsDisplayed(int) { return false; }
bool Process::FileDescriptorHasColors(int) { return false; }
bool Process::ColorNeedsFlush() { return false; }
const char *Process::OutputBold(bool) { return ""; }
const char *Process::OutputColor(char, bool, bool) { return ""; }
const char *Process::OutputReverse() { return ""; }
const char *Process::ResetColor() { return ""; }
std::error_code Process::SafelyCloseFileDescriptor(int) { return {}; }
std::error_code fs::status(int, fs::file_status &) { return std::make_error_code(std::errc::function_not_supported); }
} // namespace llvm::sys
