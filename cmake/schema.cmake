# Runs flatc on schema/vpu.fbs: vpu_generated.h for C++ (target vpu_schema), vpu_generated.py for
# the package.
python_package(flatc flatc_directory)
set(flatc "${flatc_directory}/bin/flatc")
set(generated "${PROJECT_BINARY_DIR}/generated")
set(schema "${PROJECT_SOURCE_DIR}/schema/vpu.fbs")

add_custom_command(
  OUTPUT "${generated}/vpu_generated.h"
  COMMAND "${flatc}" --cpp ${VPU_OBJECT_API} -o "${generated}" "${schema}"
  DEPENDS "${schema}" "${flatc}"
  VERBATIM)
add_custom_command(
  OUTPUT "${generated}/vpu_generated.py"
  COMMAND "${flatc}" --python --gen-object-api --gen-onefile --python-typing -o "${generated}"
          "${schema}"
  DEPENDS "${schema}" "${flatc}"
  VERBATIM)
add_custom_target(
  generate ALL DEPENDS "${generated}/vpu_generated.h" "${generated}/vpu_generated.py")

add_library(vpu_schema INTERFACE)
add_dependencies(vpu_schema generate)
target_include_directories(vpu_schema SYSTEM INTERFACE "${generated}" "${flatc_directory}/include")

install(FILES "${generated}/vpu_generated.py" DESTINATION executorch_vpu/schema)
