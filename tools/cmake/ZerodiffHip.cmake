# hipcc, HIP's runtime, and code objects of the kernels.
#
# CMake's HIP language does not find Debian's layout of ROCm, and no source needs HIP on the host
# side: kernels are compiled to plain code objects by custom commands, which the program loads.
#
#   ZERODIFF_HIPCC              the compiler, or ...-NOTFOUND
#   ZERODIFF_HIP_FLAGS          how device code is compiled, for one --offload-arch
#   ZERODIFF_HIP_ARCHITECTURES  what to build for; by default all of the candidates that compile
set(ZERODIFF_HIP_CANDIDATES gfx90a gfx940 gfx942 gfx950)
set(ZERODIFF_HIP_ARCHITECTURES "" CACHE STRING
  "AMD architectures to build kernels for; empty: those of ${ZERODIFF_HIP_CANDIDATES} that hipcc can")
find_program(ZERODIFF_HIPCC hipcc HINTS "$ENV{ROCM_PATH}/bin" /opt/rocm/bin)

# Code object version 4: no kernel needs hidden arguments, and every loader in use knows it.
set(ZERODIFF_HIP_FLAGS
  -x hip --cuda-device-only --no-gpu-bundle-output -mcode-object-version=4
  -std=c++20 -ffp-contract=off -Wall -Wextra -Wno-unused-command-line-argument
  "-I${PROJECT_SOURCE_DIR}")
if(ZERODIFF_WERROR)
  list(APPEND ZERODIFF_HIP_FLAGS -Werror)
endif()

# Whether hipcc can build a kernel for the architecture: the compiler may not know it, or may lack
# its device libraries. Asked once a build folder.
function(zerodiff_hip_knows architecture result)
  set(answer ZERODIFF_HIPCC_KNOWS_${architecture})
  if(NOT DEFINED CACHE{${answer}})
    set(flags ${ZERODIFF_HIP_FLAGS})
    list(REMOVE_ITEM flags -Werror)
    execute_process(
      COMMAND "${ZERODIFF_HIPCC}" ${flags} --offload-arch=${architecture} -O1
        -c "${PROJECT_SOURCE_DIR}/tools/cmake/hip_probe.hip.cc"
        -o "${PROJECT_BINARY_DIR}/hip_probe_${architecture}.co"
      RESULT_VARIABLE failure OUTPUT_QUIET ERROR_QUIET)
    if(failure)
      set(${answer} OFF CACHE INTERNAL "")
    else()
      set(${answer} ON CACHE INTERNAL "")
    endif()
    message(STATUS "hipcc builds for ${architecture}: ${${answer}}")
  endif()
  set(${result} ${${answer}} PARENT_SCOPE)
endfunction()

# The architectures to build for.
function(zerodiff_hip_architectures result)
  set(wanted ${ZERODIFF_HIP_ARCHITECTURES})
  if(NOT wanted)
    set(wanted ${ZERODIFF_HIP_CANDIDATES})
  endif()
  set(known)
  foreach(architecture IN LISTS wanted)
    zerodiff_hip_knows(${architecture} works)
    if(works)
      list(APPEND known ${architecture})
    elseif(ZERODIFF_HIP_ARCHITECTURES)
      message(FATAL_ERROR "hipcc (${ZERODIFF_HIPCC}) cannot build for ${architecture}")
    endif()
  endforeach()
  if(NOT known)
    message(FATAL_ERROR "hipcc (${ZERODIFF_HIPCC}) can build for none of ${wanted}")
  endif()
  set(${result} ${known} PARENT_SCOPE)
endfunction()

# zerodiff_code_object(ARCHITECTURE): build*/zerodiff_ARCHITECTURE.co with every kernel.
function(zerodiff_code_object architecture)
  set(source "${PROJECT_SOURCE_DIR}/device/kernels/code_object.hip.cc")
  set(object "${PROJECT_BINARY_DIR}/zerodiff_${architecture}.co")
  add_custom_command(OUTPUT "${object}"
    COMMAND "${ZERODIFF_HIPCC}" ${ZERODIFF_HIP_FLAGS} --offload-arch=${architecture} -O3
      -MD -MF "${object}.d" -MT "${object}" -c "${source}" -o "${object}"
    MAIN_DEPENDENCY "${source}" DEPFILE "${object}.d"
    COMMENT "Building code object zerodiff_${architecture}.co" VERBATIM)
endfunction()

# zerodiff_embed_code_objects(FILE ARCHITECTURE...): writes the source that puts them into a program.
function(zerodiff_embed_code_objects file)
  set(ZERODIFF_EMBEDDED_IMAGES)
  set(ZERODIFF_EMBEDDED_ENTRIES)
  set(objects)
  foreach(architecture IN LISTS ARGN)
    set(object "${PROJECT_BINARY_DIR}/zerodiff_${architecture}.co")
    list(APPEND objects "${object}")
    string(APPEND ZERODIFF_EMBEDDED_IMAGES "EMBED(${architecture}, \"${object}\")\n")
    string(APPEND ZERODIFF_EMBEDDED_ENTRIES "      ENTRY(${architecture}),\n")
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/device/gpu/code_objects.cc.in" "${file}" @ONLY)
  set_source_files_properties("${file}" PROPERTIES OBJECT_DEPENDS "${objects}")
endfunction()
