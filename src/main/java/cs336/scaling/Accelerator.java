package cs336.scaling;

import cs336.units.Bandwidth;
import cs336.units.Bytes;
import cs336.units.FlopRate;

/**
 * The data sheet specifications of a device.
 *
 * @param name name of the device
 * @param peak dense bf16 throughput of its matrix units, such as tensor cores
 * @param link bandwidth of one axis of its network, both directions together (TPU), or of NVLink in one direction (GPU)
 * @param memory size of its HBM
 */
public record Accelerator(String name, FlopRate peak, Bandwidth link, Bytes memory) {
    /** TPU v5p as in the course's problem, after the Scaling Book: W = 2 · 9·10¹⁰ bytes/s per axis of the torus. */
    public static final Accelerator TPU_V5P =
            new Accelerator("TPU v5p", new FlopRate(4.6e14), new Bandwidth(2 * 9e10), new Bytes(95_000_000_000L));

    /** H100 after NVIDIA's data sheet: 989 TFLOP/s without sparsity, NVLink with 450 GB/s in each direction. */
    public static final Accelerator H100 =
            new Accelerator("H100 80GB", new FlopRate(989e12), Bandwidth.gb(450), new Bytes(80_000_000_000L));

    /** H200 after NVIDIA's data sheet: an H100 with more memory. */
    public static final Accelerator H200 =
            new Accelerator("H200", new FlopRate(989e12), Bandwidth.gb(450), new Bytes(141_000_000_000L));

    /**
     * Returns the arithmetic intensity of the link: the peak divided by the bandwidth of the link, in FLOP per byte.
     */
    public double intensity() {
        return peak.perByteOf(link);
    }
}
