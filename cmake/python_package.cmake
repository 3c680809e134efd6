# python_package(<name> <variable>): the directory of an installed Python package, without
# importing it.
find_package(Python REQUIRED COMPONENTS Interpreter)

function(python_package name variable)
  execute_process(
    COMMAND
      ${Python_EXECUTABLE} -c
      "import importlib.util as util; print(util.find_spec('${name}').submodule_search_locations[0])"
    OUTPUT_VARIABLE directory
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET
    RESULT_VARIABLE failed)
  if(failed)
    message(
      FATAL_ERROR
        "The Python package '${name}' is not installed for ${Python_EXECUTABLE}. Install the build "
        "requirements listed in pyproject.toml, or choose a Python with -DPython_EXECUTABLE=...")
  endif()
  set(${variable} "${directory}" PARENT_SCOPE)
endfunction()
