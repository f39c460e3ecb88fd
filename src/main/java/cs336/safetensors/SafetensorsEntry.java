package cs336.safetensors;

import cs336.torch.DType;
import java.util.List;

/**
 * The header entry of one tensor in a {@link Safetensors} file.
 *
 * @param dtype the element type
 * @param shape the sizes
 * @param begin the offset of the first byte in the file's data section
 * @param end the offset after the last byte
 */
public record SafetensorsEntry(DType dtype, List<Long> shape, long begin, long end) {}
