package cs336.safetensors;

import cs336.torch.DType;
import java.util.List;

/**
 * The header entry of one tensor in a {@link Safetensors} file.
 *
 * @param dtypeName the element type as the file names it, such as {@code F32}
 * @param dtype the element type; null if {@link DType} does not have it, so that the tensor cannot be read
 * @param shape the sizes
 * @param begin the offset of the first byte in the file's data section
 * @param end the offset after the last byte
 */
public record SafetensorsEntry(String dtypeName, DType dtype, List<Long> shape, long begin, long end) {
    /** Returns the element type for messages: its short name, such as {@code fp32}, or else the file's name. */
    public String dtypeLabel() {
        return dtype == null ? dtypeName : dtype.shortName();
    }
}
