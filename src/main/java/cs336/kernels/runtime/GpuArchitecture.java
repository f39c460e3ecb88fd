package cs336.kernels.runtime;

import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.cuda.cudart.cudaDeviceProp;
import org.bytedeco.pytorch.global.torch_cuda;

/**
 * What a kernel is compiled for: {@code sm_80}, {@code sm_90a}. With an {@code a}, machine code may use what only this
 * very generation has (on Hopper wgmma and setmaxnreg), and runs on no other.
 *
 * @param major the generation: 8 Ampere, 9 Hopper, 10 Blackwell
 * @param minor its member
 * @param specific whether with an {@code a}
 */
public record GpuArchitecture(int major, int minor, boolean specific) {
    private static final Pattern NAME = Pattern.compile("sm_(\\d{1,2})(\\d)(a?)");
    private static final int HOPPER = 9;
    private static final Map<Integer, GpuArchitecture> BY_DEVICE = new ConcurrentHashMap<>();

    /**
     * Reads a name as NVRTC takes it.
     *
     * @throws IllegalArgumentException if it is none
     */
    public static GpuArchitecture parse(String name) {
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
     * That of a card.
     *
     * @throws IllegalArgumentException for the CPU
     */
    public static GpuArchitecture of(Device device) {
        if (!device.isCuda()) throw new IllegalArgumentException("device must be a CUDA card, not " + device);
        return BY_DEVICE.computeIfAbsent(device.index(), index -> {
            try (var scope = MemoryScope.open()) {
                cudaDeviceProp properties = torch_cuda.getDeviceProperties((byte) (int) index);
                return new GpuArchitecture(properties.major(), properties.minor(), properties.major() == HOPPER);
            }
        });
    }

    @Override
    public String toString() {
        return "sm_" + major + minor + (specific ? "a" : "");
    }
}
