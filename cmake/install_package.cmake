# Installs the CMake package that finds what is installed: find_package(executorch_vpu).
include(CMakePackageConfigHelpers)
set(config "${PROJECT_BINARY_DIR}/generated/executorch_vpu-config.cmake")
set(config_version "${PROJECT_BINARY_DIR}/generated/executorch_vpu-config-version.cmake")
configure_file(cmake/executorch_vpu-config.cmake.in "${config}" @ONLY)
write_basic_package_version_file("${config_version}" COMPATIBILITY SameMinorVersion)
install(FILES "${config}" "${config_version}" DESTINATION ${package}/share/cmake/executorch_vpu)
