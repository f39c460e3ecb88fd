package cs336.profile;

/**
 * A CUDA stream.
 *
 * @param device index of the GPU
 * @param stream id of the stream on that GPU
 */
public record DeviceStream(int device, long stream) implements Comparable<DeviceStream> {
    @Override
    public int compareTo(DeviceStream other) {
        int order = Integer.compare(device, other.device);
        return order != 0 ? order : Long.compare(stream, other.stream);
    }
}
