# What GPU compilers make of the kernels, where there are any; no GPU is needed. The sanitizers have
# nothing to do here.
find_program(ZERODIFF_NVCC nvcc HINTS /usr/local/cuda/bin)
set(kernels "${PROJECT_SOURCE_DIR}/device/kernels/code_object.hip.cc")
set(vocabulary "${CMAKE_CURRENT_SOURCE_DIR}/platform_vocabulary.hip.cc")
set(planted "${CMAKE_CURRENT_SOURCE_DIR}/planted_arithmetic.hip.cc")
set(check_arithmetic /usr/bin/python3 "${CMAKE_CURRENT_SOURCE_DIR}/check_device_arithmetic.py")
set(nvcc_flags -x cu -arch=sm_90 -std=c++20 -fmad=false -Werror all-warnings
  "-I${PROJECT_SOURCE_DIR}")

# The documented argument blocks are those of the sources.
add_test(NAME kernel_arguments_are_documented
  COMMAND /usr/bin/python3 "${PROJECT_SOURCE_DIR}/tools/kernel-arguments" --check)
set_tests_properties(kernel_arguments_are_documented PROPERTIES LABELS ci)

# A wrong flag must be noticed: gpu_flag_is_noticed(NAME MESSAGE KIND... FLAG)
function(gpu_flag_is_noticed name message)
  add_test(NAME ${name} COMMAND ${check_arithmetic} ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ci PASS_REGULAR_EXPRESSION "${message}")
endfunction()

if(ZERODIFF_HIPCC AND NOT ZERODIFF_SANITIZE)
  zerodiff_hip_architectures(architectures)
  foreach(arch IN LISTS architectures)
    add_test(NAME platform_vocabulary_compiles_for_${arch}
      COMMAND "${ZERODIFF_HIPCC}" ${ZERODIFF_HIP_FLAGS} --offload-arch=${arch} -O3 -c "${vocabulary}"
        -o "${CMAKE_CURRENT_BINARY_DIR}/platform_vocabulary_${arch}.o")
    # Compiles without warnings, too.
    add_test(NAME kernels_keep_their_arithmetic_on_${arch}
      COMMAND ${check_arithmetic} hip ${arch} "${kernels}" "${ZERODIFF_HIPCC}" ${ZERODIFF_HIP_FLAGS})
    set_tests_properties(
      platform_vocabulary_compiles_for_${arch} kernels_keep_their_arithmetic_on_${arch}
      PROPERTIES LABELS ci)
  endforeach()
  list(GET architectures 0 arch)
  set(hip hip ${arch} "${planted}" "${ZERODIFF_HIPCC}" ${ZERODIFF_HIP_FLAGS})
  gpu_flag_is_noticed(hip_contraction_is_noticed "may be contracted" ${hip} -ffp-contract=on)
  gpu_flag_is_noticed(hip_fast_contraction_is_noticed "flag contract" ${hip} -ffp-contract=fast)
  gpu_flag_is_noticed(hip_fast_math_is_noticed "flag fast" ${hip} -ffast-math)
  gpu_flag_is_noticed(hip_flushed_denormals_are_noticed "preserve-sign" ${hip}
    -fgpu-flush-denormals-to-zero)
  gpu_flag_is_noticed(hip_inexact_roots_are_noticed "__oclc_correctly_rounded_sqrt32 is 0" ${hip}
    -fno-hip-fp32-correctly-rounded-divide-sqrt)
endif()

if(ZERODIFF_NVCC AND NOT ZERODIFF_SANITIZE)
  add_test(NAME platform_vocabulary_compiles_for_sm_90
    COMMAND "${ZERODIFF_NVCC}" ${nvcc_flags} -ptx "${vocabulary}"
      -o "${CMAKE_CURRENT_BINARY_DIR}/platform_vocabulary_sm_90.ptx")
  add_test(NAME kernels_keep_their_arithmetic_on_sm_90
    COMMAND ${check_arithmetic} ptx "${kernels}" "${ZERODIFF_NVCC}" ${nvcc_flags})
  set_tests_properties(platform_vocabulary_compiles_for_sm_90 kernels_keep_their_arithmetic_on_sm_90
    PROPERTIES LABELS ci)
  set(cuda ptx "${planted}" "${ZERODIFF_NVCC}" ${nvcc_flags})
  gpu_flag_is_noticed(cuda_contraction_is_noticed "no mul.rn.f32|add.f32" ${cuda} -fmad=true)
  gpu_flag_is_noticed(cuda_fast_math_is_noticed "approx" ${cuda} -use_fast_math)
  gpu_flag_is_noticed(cuda_flushed_denormals_are_noticed "ftz" ${cuda} -ftz=true)
  gpu_flag_is_noticed(cuda_inexact_roots_are_noticed "sqrt.approx" ${cuda} -prec-sqrt=false)
endif()

if(ZERODIFF_HIP)
  zerodiff_hip_architectures(architectures)
  list(JOIN architectures " " architectures)
  zerodiff_test(device_code_object_test LABELS ci
    SOURCES
      code_object_metadata.cc
      code_object_test.cc
    LINK zerodiff::device nlohmann_json::nlohmann_json)
  target_compile_definitions(device_code_object_test PRIVATE
    ZERODIFF_CODE_OBJECT_ARCHITECTURES="${architectures}")
  add_dependencies(device_code_object_test zerodiff_code_objects)
endif()
