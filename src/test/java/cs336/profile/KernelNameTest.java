package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KernelNameTest {
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>(cutlass_80_simt_sgemm_64x64_8x5_nt_align1::Params)"
                        + " | cutlass_80_simt_sgemm_64x64_8x5_nt_align1",
                "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
                        + " | sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8",
                "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT | nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
                "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float,"
                        + " at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, float)"
                        + " | vectorized_elementwise_kernel: Mul",
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"
                        + " | vectorized_elementwise_kernel: add",
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda"
                        + "(at::TensorIteratorBase&)::{lambda()#3}::operator()() const> >(int) | elementwise_kernel: direct_copy",
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>,"
                        + " unsigned int, float, 4, 4> >(int) | reduce_kernel: Mean",
                "void (anonymous namespace)::softmax_warp_forward<float, float, float, 6, false, false>(float*, float const*, int)"
                        + " | softmax_warp_forward",
                "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)"
                        + " | nll_loss_forward_reduce_cuda_kernel_2d",
                "Memcpy DtoD (Device -> Device) | Memcpy DtoD (Device -> Device)",
                "rmsnorm_forward | rmsnorm_forward",
                "attention.softmax | attention.softmax",
                "autograd::engine::evaluate_function: MmBackward0 | autograd::engine::evaluate_function: MmBackward0",
            })
    void theShortNameKeepsTheOperation(String name, String brief) {
        assertEquals(brief, KernelName.brief(name));
    }
}
