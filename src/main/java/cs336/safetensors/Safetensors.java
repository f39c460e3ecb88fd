package cs336.safetensors;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.StrictJson;
import cs336.torch.Tensors;
import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.zip.CRC32C;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A file of named tensors in the <a href="https://huggingface.co/docs/safetensors">safetensors</a> format: the length
 * of the header (8 bytes, little-endian), the header in JSON, then the elements of all tensors, row-major,
 * little-endian and without gaps.
 *
 * <p>Opening a file reads its header and checks it against the format and the length of the file before any tensor is
 * allocated. A file may contain tensors whose dtype {@link DType} does not have, such as I16; only reading these fails.
 *
 * <p>The first metadata entry of a written file is a checksum: the CRC-32C of all its bytes, with zeros in place of the
 * checksum itself, as eight hexadecimal digits.
 */
public final class Safetensors implements AutoCloseable {
    /** The largest header that the format allows, in bytes. */
    private static final int MAX_HEADER_BYTES = 100_000_000;

    private static final int CHUNK_BYTES = 1 << 26;
    private static final int READ_BYTES = 1 << 20;
    private static final String METADATA = "__metadata__";
    private static final String CHECKSUM = "crc32c";
    private static final String NO_CHECKSUM = "00000000";

    /** The position of the checksum's digits in a written file. */
    private static final int CHECKSUM_POSITION =
            Long.BYTES + ("{\"" + METADATA + "\":{\"" + CHECKSUM + "\":\"").length();

    private static final Map<DType, String> DTYPE_NAMES = Map.of(
            DType.FLOAT64, "F64",
            DType.FLOAT32, "F32",
            DType.BFLOAT16, "BF16",
            DType.FLOAT16, "F16",
            DType.INT64, "I64",
            DType.INT32, "I32",
            DType.UINT64, "U64",
            DType.UINT8, "U8",
            DType.BOOL, "BOOL",
            DType.COMPLEX64, "C64");
    private static final Map<String, DType> DTYPES =
            DTYPE_NAMES.entrySet().stream().collect(Collectors.toMap(Map.Entry::getValue, Map.Entry::getKey));

    private final Path file;
    private final FileChannel channel;
    private final long dataStart;
    private final Map<String, SafetensorsEntry> entries = new LinkedHashMap<>();
    private final Map<String, String> metadata = new LinkedHashMap<>();
    private final String checksum; // null if there is none

    private Safetensors(Path file, FileChannel channel) throws IOException {
        this.file = file;
        this.channel = channel;
        JsonObject header = header();
        dataStart = channel.position();
        long dataLength = channel.size() - dataStart;
        for (String name : header.keySet()) {
            if (name.equals(METADATA)) {
                readMetadata(header.get(name));
            } else {
                entries.put(name, entry(name, header.get(name), dataLength));
            }
        }
        requireNoGaps(dataLength);
        checksum = metadata.remove(CHECKSUM);
    }

    /**
     * Opens a file.
     *
     * @throws IOException if it cannot be read or is not a valid safetensors file; the message states the reason
     */
    public static Safetensors open(Path file) throws IOException {
        if (Files.exists(file)
                && !Files.isRegularFile(file)) { // the error of a read does not name a folder; a pipe blocks
            throw new IOException(file + " is not a regular file");
        }
        FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
        try {
            return new Safetensors(file, channel);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** Returns the header entries of the tensors by name, in the header's order. */
    public Map<String, SafetensorsEntry> entries() {
        return new LinkedHashMap<>(entries);
    }

    /** Returns the metadata without the checksum: strings by name. */
    public Map<String, String> metadata() {
        return Collections.unmodifiableMap(metadata);
    }

    /**
     * Reads a tensor onto a device, in the caller's memory scope.
     *
     * @throws IllegalArgumentException if there is no tensor of this name
     * @throws IllegalStateException if the file is closed
     * @throws IOException if the file cannot be read, or {@link DType} does not have the dtype of the tensor
     */
    public Tensor tensor(String name, Device device) throws IOException {
        if (!channel.isOpen()) {
            throw new IllegalStateException(file + " is closed");
        }
        SafetensorsEntry entry = entries.get(name);
        if (entry == null) {
            throw new IllegalArgumentException(file + " has no tensor '" + name + "'");
        }
        if (entry.dtype() == null) {
            throw error("has a tensor '" + name + "' with the dtype " + entry.dtypeName()
                    + ", which cannot be read; known: " + DTYPE_NAMES.values());
        }
        try (var scope = MemoryScope.open()) {
            long[] shape = entry.shape().stream().mapToLong(Long::longValue).toArray();
            Tensor tensor = torch.empty(shape, Device.cpu().options(entry.dtype()), new MemoryFormatOptional());
            for (long from = 0; from < entry.end() - entry.begin(); from += CHUNK_BYTES) {
                readFully(bytes(tensor, from), dataStart + entry.begin() + from);
            }
            return scope.escape(tensor.to(device.toTorch(), entry.dtype().scalarType()));
        }
    }

    /** Returns whether the file has a checksum, as all files of {@link #write} have. */
    public boolean hasChecksum() {
        return checksum != null;
    }

    /**
     * Reads the whole file and compares it with its checksum.
     *
     * @throws IOException if they differ, the file has no checksum, or it cannot be read
     */
    public void requireIntact() throws IOException {
        if (checksum == null) {
            throw error("has no checksum");
        }
        var sum = new CRC32C();
        ByteBuffer chunk = ByteBuffer.allocateDirect(READ_BYTES);
        for (long from = 0; from < channel.size(); from += chunk.position()) {
            readFully(chunk.clear().limit((int) Math.min(READ_BYTES, channel.size() - from)), from);
            for (int i = 0; from == 0 && i < NO_CHECKSUM.length() && CHECKSUM_POSITION + i < chunk.limit(); i++) {
                chunk.put(CHECKSUM_POSITION + i, (byte) NO_CHECKSUM.charAt(i));
            }
            sum.update(chunk.flip());
        }
        if (!text(sum).equals(checksum)) {
            throw error("is damaged: its checksum is " + text(sum) + ", not " + checksum);
        }
    }

    private static String text(CRC32C sum) {
        return String.format("%08x", sum.getValue());
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    /**
     * Writes a file atomically: an existing file is replaced only when the new one is complete and on disk.
     *
     * @param tensors the tensors by name, on any device
     * @param metadata strings by name
     * @throws IOException if the file cannot be written
     * @throws IllegalArgumentException if a tensor is null, closed or undefined, is named {@code __metadata__} or has a
     *     dtype that is not in {@link DType}, or the metadata has the reserved name {@code crc32c}
     */
    public static void write(Path file, Map<String, Tensor> tensors, Map<String, String> metadata) throws IOException {
        tensors.forEach(Safetensors::requireWritable);
        // Tensors with wider elements first, so that each is aligned in a memory-mapped file.
        List<String> order = new ArrayList<>(tensors.keySet());
        order.sort(Comparator.comparing(name -> -DType.of(tensors.get(name)).bytes()));
        ByteBuffer header = header(tensors, order, metadata);

        Path target = file.toAbsolutePath();
        Path part = target.resolveSibling(target.getFileName() + "." + UUID.randomUUID() + ".part");
        try {
            try (FileChannel channel =
                    FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                var sum = new CRC32C();
                writeFully(channel, header, sum);
                for (String name : order) {
                    try (var scope = MemoryScope.open()) {
                        Tensor tensor = tensors.get(name)
                                .detach()
                                .cpu()
                                .resolve_conj()
                                .resolve_neg()
                                .contiguous();
                        for (long from = 0; from < tensor.nbytes(); from += CHUNK_BYTES) {
                            writeFully(channel, bytes(tensor, from), sum);
                        }
                    }
                }
                channel.write(ByteBuffer.wrap(text(sum).getBytes(StandardCharsets.US_ASCII)), CHECKSUM_POSITION);
                channel.force(true);
            }
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            try (FileChannel folder = FileChannel.open(target.getParent(), StandardOpenOption.READ)) {
                folder.force(true); // the new name
            }
        } finally {
            Files.deleteIfExists(part);
        }
    }

    private static void requireWritable(String name, Tensor tensor) {
        Tensors.requireDefined("tensor '" + name + "'", tensor);
        try {
            DType.of(tensor);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException("tensor '" + name + "' cannot be written: " + e.getMessage(), e);
        }
    }

    private static ByteBuffer header(Map<String, Tensor> tensors, List<String> order, Map<String, String> metadata) {
        Map<String, long[]> offsets = new LinkedHashMap<>();
        long end = 0;
        for (String name : order) {
            long begin = end;
            end += tensors.get(name).nbytes();
            offsets.put(name, new long[] {begin, end});
        }
        if (metadata.containsKey(CHECKSUM)) {
            throw new IllegalArgumentException("metadata must not contain the reserved name '" + CHECKSUM + "'");
        }
        var header = new JsonObject();
        var strings = new JsonObject();
        strings.addProperty(CHECKSUM, NO_CHECKSUM); // first, see CHECKSUM_POSITION
        metadata.forEach((name, text) -> strings.addProperty(
                name, Objects.requireNonNull(text, () -> "metadata '" + name + "' must not be null")));
        header.add(METADATA, strings);
        tensors.forEach((name, tensor) -> {
            if (name.equals(METADATA)) {
                throw new IllegalArgumentException("name of a tensor must not be " + METADATA);
            }
            var entry = new JsonObject();
            entry.addProperty("dtype", DTYPE_NAMES.get(DType.of(tensor)));
            var shape = new JsonArray();
            for (long i = 0; i < tensor.dim(); i++) {
                shape.add(tensor.size(i));
            }
            entry.add("shape", shape);
            var dataOffsets = new JsonArray();
            dataOffsets.add(offsets.get(name)[0]);
            dataOffsets.add(offsets.get(name)[1]);
            entry.add("data_offsets", dataOffsets);
            header.add(name, entry);
        });
        byte[] json = header.toString().getBytes(StandardCharsets.UTF_8);
        int length = (json.length + 7) / 8 * 8;
        ByteBuffer bytes = ByteBuffer.allocate(8 + length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(length).put(json);
        while (bytes.hasRemaining()) {
            bytes.put((byte) ' ');
        }
        return bytes.flip();
    }

    private JsonObject header() throws IOException {
        long size = channel.size();
        if (size < 8) {
            throw error("has " + size + " bytes, but the length of the header takes 8");
        }
        ByteBuffer lengthBytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        readFully(lengthBytes, 0);
        long length = lengthBytes.getLong(0);
        if (length < 2 || length > MAX_HEADER_BYTES || length > size - 8) {
            throw error("has a header length of " + Long.toUnsignedString(length) + " bytes; it must be from 2 to "
                    + Math.min(size - 8, MAX_HEADER_BYTES));
        }
        ByteBuffer bytes = ByteBuffer.allocate((int) length);
        readFully(bytes, 8);
        channel.position(8 + length);
        try {
            String json =
                    StandardCharsets.UTF_8.newDecoder().decode(bytes.flip()).toString();
            JsonElement header = StrictJson.parse(new StringReader(json), "its header");
            if (header.isJsonObject()) {
                return header.getAsJsonObject();
            }
        } catch (CharacterCodingException e) {
            throw error("has a header that is not UTF-8");
        } catch (IllegalArgumentException e) {
            throw error("cannot be read: " + e.getMessage());
        }
        throw error("has a header that is not a JSON object");
    }

    private void readMetadata(JsonElement element) throws IOException {
        if (!element.isJsonObject()) {
            throw error("has a " + METADATA + " that is not an object");
        }
        for (var entry : element.getAsJsonObject().entrySet()) {
            if (!(entry.getValue() instanceof JsonPrimitive text) || !text.isString()) {
                throw error("has metadata '" + entry.getKey() + "' that is not a string");
            }
            metadata.put(entry.getKey(), text.getAsString());
        }
    }

    private SafetensorsEntry entry(String name, JsonElement element, long dataLength) throws IOException {
        String what = "has a tensor '" + name + "' ";
        if (!element.isJsonObject()) {
            throw error(what + "that is not an object");
        }
        JsonObject object = element.getAsJsonObject();
        JsonElement dtypeName = object.get("dtype");
        if (!(dtypeName instanceof JsonPrimitive text) || !text.isString()) {
            throw error(what + "with the dtype " + dtypeName + "; it must be a string");
        }
        List<Long> shape = nonNegativeIntegers(what + "with the shape ", object.get("shape"));
        List<Long> offsets = nonNegativeIntegers(what + "with the data_offsets ", object.get("data_offsets"));
        if (offsets.size() != 2 || offsets.get(0) > offsets.get(1) || offsets.get(1) > dataLength) {
            throw error(what + "with the data_offsets " + offsets
                    + "; they must be the begin and end of a range of the " + dataLength + " bytes of data");
        }
        DType dtype = DTYPES.get(text.getAsString());
        if (dtype == null) { // of unknown size
            return new SafetensorsEntry(text.getAsString(), null, shape, offsets.get(0), offsets.get(1));
        }
        long bytes = dtype.bytes();
        try {
            for (long size : shape) {
                bytes = Math.multiplyExact(bytes, Math.max(1, size)); // libtorch computes strides of empty tensors, too
            }
        } catch (ArithmeticException e) {
            throw error(what + "with the shape " + shape + ", which overflows 64 bits");
        }
        bytes = shape.contains(0L) ? 0 : bytes;
        if (bytes != offsets.get(1) - offsets.get(0)) {
            throw error(what + "with " + bytes + " bytes according to its shape " + shape + " and dtype " + dtype
                    + ", but " + (offsets.get(1) - offsets.get(0)) + " bytes according to its data_offsets " + offsets);
        }
        return new SafetensorsEntry(text.getAsString(), dtype, shape, offsets.get(0), offsets.get(1));
    }

    private List<Long> nonNegativeIntegers(String what, JsonElement element) throws IOException {
        List<Long> numbers = new ArrayList<>();
        if (element != null && element.isJsonArray()) {
            for (JsonElement item : element.getAsJsonArray()) {
                // Any 18 digits fit in a long.
                if (!(item instanceof JsonPrimitive number)
                        || !number.isNumber()
                        || !number.getAsString().matches("\\d{1,18}")) {
                    throw error(what + element + "; it must consist of non-negative integers");
                }
                numbers.add(number.getAsLong());
            }
            return Collections.unmodifiableList(numbers);
        }
        throw error(what + element + "; it must be an array");
    }

    private void requireNoGaps(long dataLength) throws IOException {
        List<String> byOffset = new ArrayList<>(entries.keySet());
        byOffset.sort(
                Comparator.comparingLong((String name) -> entries.get(name).begin())
                        .thenComparingLong(name -> entries.get(name).end()));
        long end = 0;
        for (String name : byOffset) {
            SafetensorsEntry entry = entries.get(name);
            if (entry.begin() != end) {
                throw error("has a tensor '" + name + "' that begins at byte " + entry.begin()
                        + " of the data; the tensor before it ends at " + end);
            }
            end = entry.end();
        }
        if (end != dataLength) {
            throw error("has " + dataLength + " bytes of data, but its tensors end at " + end);
        }
    }

    private IOException error(String message) {
        return new IOException(file + " " + message);
    }

    private void readFully(ByteBuffer buffer, long position) throws IOException {
        while (buffer.hasRemaining()) {
            int count = channel.read(buffer, position);
            if (count < 0) {
                throw error("was truncated while it was read");
            }
            position += count;
        }
    }

    private static void writeFully(FileChannel channel, ByteBuffer buffer, CRC32C sum) throws IOException {
        sum.update(buffer.duplicate());
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
    }

    /** Returns the memory of a contiguous CPU tensor from a byte on, at most one chunk. */
    private static ByteBuffer bytes(Tensor tensor, long from) {
        long to = Math.min(from + CHUNK_BYTES, tensor.nbytes());
        return new BytePointer(tensor.data_ptr()).position(from).limit(to).asByteBuffer();
    }
}
