package cs336.kernels.runtime;

import cs336.torch.Torch;

/** The emulation of fp32 matrix multiplications on tensor cores, which have no fp32. */
public enum Fp32Emulation {
    /** Operands rounded to TF32, 11 significant bits. */
    TF32(1),
    /**
     * Operands split into sums of two TF32 numbers, with three TF32 multiplications: as accurate as fp32 for operands
     * from 1e-34 to 3.4e38. Smaller ones lose accuracy. Those that TF32 rounds to infinity can give NaN.
     */
    TF32_X3(3);

    private final int products;

    Fp32Emulation(int products) {
        this.products = products;
    }

    /** Returns the fastest emulation that PyTorch's setting for TF32 {@linkplain Torch#allowsTf32 allows}. */
    public static Fp32Emulation allowed() {
        return Torch.allowsTf32() ? TF32 : TF32_X3;
    }

    /** Returns the tensor-core multiplications per fp32 multiplication. */
    public int products() {
        return products;
    }
}
