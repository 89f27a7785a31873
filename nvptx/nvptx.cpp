// The optimiser and the NVPTX backend: LLVM bitcode in, the text of PTX out.
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"
#include <cstdlib>
#include <optional>

using namespace llvm;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

static SmallVector<char, 0> text;

static const Target *target() {
  static const Target *found = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    const char *options[] = {"nvptx", "-simplifycfg-sink-common=false", "-enable-memcpyopt-without-libcalls"};
    cl::ParseCommandLineOptions(3, options);
    std::string error;
    return TargetRegistry::lookupTarget(Triple("nvptx64-nvidia-cuda"), error);
  }();
  return found;
}

static void optimise(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager graphs;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
}

extern "C" {

__attribute__((visibility("default"))) void *reserve(size_t bytes) { return malloc(bytes); }

// Compiles a module for sm_90; 0 if it is not readable as bitcode.
__attribute__((visibility("default"))) int compile(const char *bitcode, size_t bytes) {
  text.clear();
  LLVMContext context;
  Expected<std::unique_ptr<Module>> read = parseBitcodeFile(MemoryBufferRef(StringRef(bitcode, bytes), "kernel.cu"), context);
  if (!read) {
    consumeError(read.takeError());
    return 0;
  }
  Module &module = **read;
  TargetOptions options;
  options.MCOptions.AsmVerbose = true; // the chains of inlined calls are in the comments
  std::unique_ptr<TargetMachine> machine(target()->createTargetMachine(
      Triple("nvptx64-nvidia-cuda"), "sm_90", "+ptx83", options, Reloc::Static, std::nullopt, CodeGenOptLevel::Default));
  module.setDataLayout(machine->createDataLayout());
  optimise(module, *machine);
  raw_svector_ostream out(text);
  legacy::PassManager passes;
  passes.add(new TargetLibraryInfoWrapperPass(module.getTargetTriple()));
  machine->addPassesToEmitFile(passes, out, nullptr, CodeGenFileType::AssemblyFile);
  passes.run(module);
  return 1;
}

__attribute__((visibility("default"))) const char *made() { return text.data(); }
__attribute__((visibility("default"))) size_t length() { return text.size(); }
}
#ifdef NATIVE
#include <cstdio>
int main(int n, char **names) {
  for (int i = 1; i < n; i++) {
    auto file = MemoryBuffer::getFile(names[i]);
    if (!compile((*file)->getBufferStart(), (*file)->getBufferSize())) { puts("unreadable"); return 1; }
    std::string to = std::string(names[i]) + ".n.ptx";
    FILE *f = fopen(to.c_str(), "w"); fwrite(made(), 1, length(), f); fclose(f);
  }
}
#endif
