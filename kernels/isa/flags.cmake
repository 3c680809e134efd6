# How the files of the instruction sets are compiled: each for its own set, since nothing in it runs
# before the registry has asked the CPU; not at all on another architecture. -O3 vectorizes the
# loops of portable_inl.h. Sets that are emulated (VPU_EMULATE) are compiled
# for any CPU, with the headers of tests/emulation before their own and the compiler's.
function(vpu_isa name architecture)
  set(source "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${name}.cpp")
  if(VPU_EMULATE AND "${architecture}" STREQUAL "${x86_64}")
    set_source_files_properties(
      "${source}" PROPERTIES INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}/tests/emulation")
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "${architecture}")
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "-O3;${ARGN}")
  else()
    set_source_files_properties("${source}" PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()

set(x86_64 "^(x86_64|AMD64|amd64)$")
set(aarch64 "^(aarch64|arm64)$")
vpu_isa(scalar ".*")
vpu_isa(avx2 "${x86_64}" -mavx2)
vpu_isa(avx512vnni "${x86_64}" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
vpu_isa(amx "${x86_64}" -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mamx-tile -mamx-int8)
vpu_isa(neon_dotprod "${aarch64}" -march=armv8.2-a+dotprod)
# Scheduling makes GCC load all of a step's weights first, which leaves no registers for the sums.
vpu_isa(neon_i8mm "${aarch64}" -march=armv8.2-a+dotprod+i8mm
        $<$<CXX_COMPILER_ID:GNU>:-fno-schedule-insns>)
