# Finds the ExecuTorch wheel and insists on the version this package is written for.
python_package(executorch executorch_directory)
find_package(executorch REQUIRED CONFIG PATHS "${executorch_directory}/share/cmake"
             NO_DEFAULT_PATH)
string(REGEX REPLACE "[+].*" "" executorch_version "${EXECUTORCH_BUILD_VERSION}")
if(NOT executorch_version STREQUAL VPU_EXECUTORCH_VERSION)
  message(
    FATAL_ERROR
      "executorch-vpu ${PROJECT_VERSION} builds against ExecuTorch ${VPU_EXECUTORCH_VERSION}, but "
      "${executorch_directory} is version ${EXECUTORCH_BUILD_VERSION}. "
      "Run: pip install executorch==${VPU_EXECUTORCH_VERSION}")
endif()

# The imported targets carry a run path into this very directory, which need not exist where the
# package is installed. Ours is relative: from executorch_vpu/<lib or bin> to executorch/lib.
foreach(component runtime threadpool kernels_optimized kernels_quantized etdump)
  get_target_property(options executorch::${component} INTERFACE_LINK_OPTIONS)
  list(FILTER options EXCLUDE REGEX "-rpath,")
  set_target_properties(executorch::${component} PROPERTIES INTERFACE_LINK_OPTIONS "${options}")
endforeach()
set(executorch_run_path "$ORIGIN/../../executorch/lib")

# What executorch_vpu.runtime compares with the installed ExecuTorch.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/build_info.py" CONTENT
[["""How this package was built. Generated."""

EXECUTORCH_VERSION = "@executorch_version@"
]] @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/build_info.py" DESTINATION executorch_vpu)
