package cs336.kernels.runtime;

import cs336.torch.Torch;

/** The emulation of fp32 matrix multiplications, which tensor cores do not offer. */
public enum Fp32Emulation {
    /** Operands rounded to TF32, 11 significant bits. */
    TF32(1),
    /**
     * Operands split into sums of two TF32 numbers, with three TF32 multiplications: as accurate as fp32 for operands
     * between 1e-34 and 3.4e38. Smaller ones lose accuracy; larger and infinite ones give NaN.
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
