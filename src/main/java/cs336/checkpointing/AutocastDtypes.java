package cs336.checkpointing;

import cs336.torch.Autocast;
import cs336.torch.DType;
import cs336.torch.Device;
import org.bytedeco.pytorch.global.torch;

/**
 * The autocast dtypes of a thread.
 *
 * @param cpu the dtype of matrix multiplications on the CPU; fp32 without autocast
 * @param gpu the same on CUDA; that of the CPU if there is no GPU
 */
record AutocastDtypes(DType cpu, DType gpu) {
    private static final Device CPU = Device.cpu();
    private static final Device GPU = Device.best(); // autocast has one dtype for all GPUs

    static AutocastDtypes ofThisThread() {
        return new AutocastDtypes(Autocast.dtype(CPU), Autocast.dtype(GPU));
    }

    /** Runs an action under these dtypes. */
    void during(Runnable action) {
        try (var onCpu = Autocast.of(CPU, cpu);
                var onGpu = Autocast.of(GPU, gpu)) {
            clearCasts();
            action.run();
        }
    }

    /**
     * Frees autocast's cached casts of weights. A cast that an earlier function has cached would otherwise be used in
     * the forward pass, but not in the recomputation. Does nothing without autocast.
     */
    void clearCasts() {
        if (cpu != DType.FLOAT32 || gpu != DType.FLOAT32) {
            torch.clear_cache();
        }
    }
}
