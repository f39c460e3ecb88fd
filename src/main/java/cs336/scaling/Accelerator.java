package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.FlopRate;

/**
 * A device as its data sheet describes it, dense bf16.
 *
 * @param name of the device
 * @param peak what its matrix units do in bf16
 * @param link what it sends and receives together over one axis of its network (TPU), or sends over NVLink (GPU)
 * @param memory of its own
 */
public record Accelerator(String name, FlopRate peak, Bandwidth link, Bytes memory) {
    /** As the course's problem states it after the Scaling Book: W = 2 · 9·10¹⁰ bytes/s for each axis of the torus. */
    public static final Accelerator TPU_V5P =
            new Accelerator("TPU v5p", new FlopRate(4.6e14), new Bandwidth(2 * 9e10), new Bytes(95_000_000_000L));

    /** NVIDIA's data sheet: 989 TFLOP/s without sparsity, NVLink 450 GB/s each way. */
    public static final Accelerator H100 =
            new Accelerator("H100 80GB", new FlopRate(989e12), Bandwidth.gb(450), new Bytes(80_000_000_000L));

    /** NVIDIA's data sheet; the same chip with more memory. */
    public static final Accelerator H200 =
            new Accelerator("H200", new FlopRate(989e12), Bandwidth.gb(450), new Bytes(141_000_000_000L));

    /** Operations for each byte over one link. */
    public double intensity() {
        return peak.perByteOf(link);
    }
}
