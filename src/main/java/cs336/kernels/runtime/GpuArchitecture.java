package cs336.kernels.runtime;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.cuda.cudart.cudaDeviceProp;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * A GPU architecture that kernels are compiled for, such as {@code sm_80} or {@code sm_90a}. The suffix {@code a} makes
 * the code architecture-specific: it can use instructions that only this architecture has (wgmma and setmaxnreg on
 * Hopper), and runs on no other.
 *
 * @param major major compute capability: 8 Ampere and Ada, 9 Hopper, 10 Blackwell
 * @param minor minor compute capability
 * @param specific whether the name has the suffix {@code a}
 */
public record GpuArchitecture(int major, int minor, boolean specific) {
    private static final Pattern NAME = Pattern.compile("sm_(\\d{1,2})(\\d)(a?)");
    private static final int HOPPER = 9;

    /**
     * Parses a name such as {@code sm_90a}.
     *
     * @throws IllegalArgumentException if the name has another form
     */
    public static GpuArchitecture parse(String name) {
        Objects.requireNonNull(name, "name must not be null");
        Matcher parts = NAME.matcher(name);
        if (!parts.matches()) {
            throw new IllegalArgumentException("architecture '" + name + "' is not of the form sm_80 or sm_90a");
        }
        return new GpuArchitecture(
                Integer.parseInt(parts.group(1)),
                Integer.parseInt(parts.group(2)),
                !parts.group(3).isEmpty());
    }

    /**
     * Returns the architecture of a CUDA device, architecture-specific on Hopper.
     *
     * @throws IllegalArgumentException if the device is the CPU
     */
    public static GpuArchitecture of(Device device) {
        if (!device.isCuda()) {
            throw new IllegalArgumentException("device must be a CUDA device, not " + device);
        }
        try (var scope = MemoryScope.open()) {
            cudaDeviceProp properties = torch_cuda.getDeviceProperties((byte) device.index());
            return new GpuArchitecture(properties.major(), properties.minor(), properties.major() == HOPPER);
        }
    }

    @Override
    public String toString() {
        return "sm_" + major + minor + (specific ? "a" : "");
    }
}
