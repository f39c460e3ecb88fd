package cs336.profile;

import java.util.Locale;
import java.util.regex.Pattern;

/**
 * Sorts of work on a card. The first that fits, in the order in which they stand here, is a kernel's kind: by its name,
 * which says what its library made it for, and for {@link #OURS} by what launched it.
 */
public enum KernelKind {
    /** Copies between cards: NCCL. */
    COMMUNICATION("nccl|nvshmem"),
    /** Fused attention of PyTorch, cuDNN or FlashAttention: products and softmax in one. */
    ATTENTION("pytorch_flash|fmha|cudnn.*sdpa|attention_kernel_batched"),
    /** Matrix products of cuBLAS, cuDNN and CUTLASS, with the sums of their split-K parts. */
    MATMUL("gemm|gemv|nvjet|cutlass|xmma|splitk|cublas|dot_kernel"),
    /** Kernels of this project, or of whoever else launches his own: a C name, launched by no operator of PyTorch. */
    OURS(null),
    SOFTMAX("softmax"),
    /** Moves and casts: memory copies, memory sets, copies with another layout or type, concatenation. */
    COPY("^memcpy|^memset|copy_kernel|copy_device_to_device|catarray"),
    /** Sums, means and norms, along rows or over everything. */
    REDUCTION("reduce_kernel|layer_norm|rms_norm|gammabeta|nll_loss|cumsum|scan"),
    /** One output for one place of the inputs, optimizers of many tensors included. */
    ELEMENTWISE("elementwise|multi_tensor|foreach|triu_tril|dropout"),
    /** Everything else: look-ups and their gradients, sorting, random numbers. */
    OTHER("");

    private static final Pattern C_IDENTIFIER = Pattern.compile("[A-Za-z_][A-Za-z_0-9]*");

    private final Pattern names;

    KernelKind(String names) {
        this.names = names == null ? null : Pattern.compile(names);
    }

    static KernelKind of(DeviceEventKind kind, String name, HostEvent launch) {
        if (kind == DeviceEventKind.MEMCPY || kind == DeviceEventKind.MEMSET) return COPY;
        String lowerCase = name.toLowerCase(Locale.ROOT);
        for (KernelKind candidate : values()) {
            boolean fits = candidate == OURS
                    ? isOurs(name, launch)
                    : candidate.names.matcher(lowerCase).find();
            if (fits) return candidate;
        }
        return OTHER;
    }

    private static boolean isOurs(String name, HostEvent launch) {
        HostEvent operator = launch == null ? null : launch.operator();
        boolean byPyTorch = operator != null && operator.name().startsWith("aten::");
        return !byPyTorch && C_IDENTIFIER.matcher(name).matches();
    }

    /** As in {@code matmul}. */
    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
