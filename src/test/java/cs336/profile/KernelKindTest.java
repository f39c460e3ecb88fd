package cs336.profile;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The kernel names are abbreviated from profiles on an H200. */
class KernelKindTest {
    private static final HostEvent.HostArgs NO_ARGS = new HostEvent.HostArgs(-1, -1, -1, -1, "");

    private static HostEvent launchedBy(String operator) {
        var thread = new HostThread("1", "1");
        var call = new HostEvent(HostEventKind.CALL, "cuLaunchKernel", thread, 1, 1, NO_ARGS);
        if (!operator.isEmpty()) {
            call.parent = new HostEvent(HostEventKind.OP, operator, thread, 0, 9, NO_ARGS);
        }
        return call;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "MATMUL|aten::mm|sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma",
                "MATMUL|aten::mm|void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>(cutlass::Params)",
                "MATMUL|aten::mm|void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(cublasLt::cublasSplitKParams<float>)",
                "MATMUL|aten::bmm|nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
                "MATMUL|aten::mm|void gemv2T_kernel_val<int, int, __nv_bfloat16>(float)",
                "ATTENTION|aten::_scaled_dot_product_flash_attention|void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>()",
                "ATTENTION|aten::_scaled_dot_product_cudnn_attention|cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16",
                "ATTENTION|aten::_efficient_attention_forward|fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)",
                "COMMUNICATION|c10d::allreduce_|ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
                "SOFTMAX|aten::_softmax|void (anonymous namespace)::softmax_warp_forward<float, float, float, 6, false, false>(float*)",
                "SOFTMAX|aten::_log_softmax|void at::native::cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>(float*)",
                "COPY|aten::copy_|void at::native::elementwise_kernel<128, 2, gpu_kernel_impl_nocast<direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}",
                "COPY|aten::copy_|void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)>",
                "COPY|aten::cat|void at::native::CatArrayBatchedCopy<float, unsigned int, 3, 64, 64>()",
                "REDUCTION|aten::sum|void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, sum_functor<float>>>",
                "REDUCTION|aten::native_layer_norm|void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
                "REDUCTION|aten::nll_loss|void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(float*)",
                "ELEMENTWISE|aten::add|void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)",
                "ELEMENTWISE|aten::_fused_adamw_|void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>>",
                "ELEMENTWISE|aten::triu_|void at::native::triu_tril_kernel<float, int, true, 2, true>(at::cuda::detail::TensorInfo<float, int>)",
                "OTHER|aten::index|void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)",
                "OTHER|aten::mystery|plain_c_name",
                "OURS|''|rmsnorm_forward",
                "OURS|<backward op>|rmsnorm_backward",
                "OURS|''|flash_attention_forward",
            })
    void theKindFollowsFromTheNameAndTheLaunch(KernelKind kind, String operator, String kernel) {
        assertEquals(kind, kindOf(DeviceEventKind.KERNEL, kernel, launchedBy(operator)));
    }

    @Test
    void memoryCopiesAndSetsAreCopies() {
        assertEquals(KernelKind.COPY, kindOf(DeviceEventKind.MEMCPY, "Memcpy DtoD (Device -> Device)", null));
        assertEquals(KernelKind.COPY, kindOf(DeviceEventKind.MEMSET, "Memset (Device)", launchedBy("aten::zero_")));
        assertEquals("matmul", KernelKind.MATMUL.toString());
    }

    private static KernelKind kindOf(DeviceEventKind kind, String name, HostEvent launch) {
        return KernelKind.of(kind, name, KernelKind.named(name), launch);
    }
}
