package cs336.torch;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
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
import java.util.UUID;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.pytorch.MemoryFormatOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A file of named tensors in the <a href="https://huggingface.co/docs/safetensors">safetensors</a> format, which most
 * tools for language models read: eight bytes with the length of the header (little-endian), the header in JSON, then
 * the elements of all tensors, row-major and little-endian, without gaps.
 *
 * <p>Opening a file reads its header and checks everything that it says against the format and the length of the file.
 * Only then is memory taken, never more than the file is long.
 */
public final class Safetensors implements AutoCloseable {
    /** The format's own limit. */
    private static final int LONGEST_HEADER = 100_000_000;

    private static final int CHUNK = 1 << 26;
    private static final String METADATA = "__metadata__";

    private static final Map<DType, String> NAMES = Map.of(
            DType.FLOAT64, "F64",
            DType.FLOAT32, "F32",
            DType.BFLOAT16, "BF16",
            DType.FLOAT16, "F16",
            DType.INT64, "I64",
            DType.INT32, "I32",
            DType.BOOL, "BOOL");

    private final Path file;
    private final FileChannel channel;
    private final long dataStart;
    private final Map<String, SafetensorsEntry> entries = new LinkedHashMap<>();
    private final Map<String, String> metadata = new LinkedHashMap<>();

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
    }

    /**
     * Opens a file.
     *
     * @throws IOException if it cannot be read, or is no safetensors file; the message says what is wrong with it
     */
    public static Safetensors open(Path file) throws IOException {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
        try {
            return new Safetensors(file, channel);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /** The tensors by name, in the header's order. */
    public Map<String, SafetensorsEntry> entries() {
        return new LinkedHashMap<>(entries);
    }

    /** The texts that the file carries beside its tensors. */
    public Map<String, String> metadata() {
        return Collections.unmodifiableMap(metadata);
    }

    /**
     * Reads one tensor onto a device, in the caller's memory scope.
     *
     * @throws IllegalArgumentException if there is none of that name
     * @throws IOException if the file cannot be read
     */
    public Tensor tensor(String name, Device device) throws IOException {
        SafetensorsEntry entry = entries.get(name);
        if (entry == null) {
            throw new IllegalArgumentException(file + " has no tensor '" + name + "'");
        }
        try (var scope = MemoryScope.open()) {
            long[] shape = entry.shape().stream().mapToLong(Long::longValue).toArray();
            Tensor tensor = torch.empty(shape, Device.cpu().options(entry.dtype()), new MemoryFormatOptional());
            for (long from = 0; from < entry.end() - entry.begin(); from += CHUNK) {
                readFully(bytes(tensor, from), dataStart + entry.begin() + from);
            }
            return scope.escape(tensor.to(device.toTorch(), entry.dtype().scalarType()));
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }

    /**
     * Writes a file. It appears under its name only once it is whole; whatever had the name before stays until then.
     *
     * @param tensors on any device
     * @param metadata texts to carry along
     * @throws IOException if the file cannot be written
     * @throws IllegalArgumentException if a tensor is called {@code __metadata__} or has a type that {@link DType}
     *     lacks
     */
    public static void write(Path file, Map<String, Tensor> tensors, Map<String, String> metadata) throws IOException {
        // Wider elements first: each then begins at a multiple of its size, as readers that map the file into memory
        // like.
        List<String> order = new ArrayList<>(tensors.keySet());
        order.sort(Comparator.comparing(name -> -DType.of(tensors.get(name)).bytes()));
        ByteBuffer header = header(tensors, order, metadata);

        Path target = file.toAbsolutePath();
        Path part = target.resolveSibling(target.getFileName() + "." + UUID.randomUUID() + ".part");
        try {
            try (FileChannel channel =
                    FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
                writeFully(channel, header);
                for (String name : order) {
                    try (var scope = MemoryScope.open()) {
                        Tensor tensor = tensors.get(name).detach().cpu().contiguous();
                        for (long from = 0; from < tensor.nbytes(); from += CHUNK) {
                            writeFully(channel, bytes(tensor, from));
                        }
                    }
                }
                channel.force(true);
            }
            Files.move(part, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(part);
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
        JsonObject header = new JsonObject();
        if (!metadata.isEmpty()) {
            JsonObject texts = new JsonObject();
            metadata.forEach(texts::addProperty);
            header.add(METADATA, texts);
        }
        tensors.forEach((name, tensor) -> {
            if (name.equals(METADATA)) {
                throw new IllegalArgumentException("a tensor cannot be called " + METADATA);
            }
            JsonObject entry = new JsonObject();
            entry.addProperty("dtype", NAMES.get(DType.of(tensor)));
            JsonArray shape = new JsonArray();
            for (long i = 0; i < tensor.dim(); i++) {
                shape.add(tensor.size(i));
            }
            entry.add("shape", shape);
            JsonArray place = new JsonArray();
            place.add(offsets.get(name)[0]);
            place.add(offsets.get(name)[1]);
            entry.add("data_offsets", place);
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
            throw error("has " + size + " bytes; the length of the header alone takes 8");
        }
        ByteBuffer lengthBytes = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
        readFully(lengthBytes, 0);
        long length = lengthBytes.getLong(0);
        if (length < 2 || length > LONGEST_HEADER || length > size - 8) {
            throw error("gives its header a length of " + Long.toUnsignedString(length) + " bytes; it has " + (size - 8)
                    + " after that number, and the format allows " + LONGEST_HEADER);
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
                throw error("has metadata '" + entry.getKey() + "' that is not a text");
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
        DType dtype = null;
        for (var known : NAMES.entrySet()) {
            if (new JsonPrimitive(known.getValue()).equals(dtypeName)) {
                dtype = known.getKey();
            }
        }
        if (dtype == null) {
            throw error(what + "of the dtype " + dtypeName + "; known: " + NAMES.values());
        }
        List<Long> shape = wholeNumbers(what + "with the shape ", object.get("shape"));
        List<Long> offsets = wholeNumbers(what + "with the data_offsets ", object.get("data_offsets"));
        if (offsets.size() != 2 || offsets.get(0) > offsets.get(1) || offsets.get(1) > dataLength) {
            throw error(what + "with the data_offsets " + offsets + "; they must be begin and end within the "
                    + dataLength + " bytes of data");
        }
        long bytes = dtype.bytes();
        try {
            // A size of 0 makes the tensor empty, whatever the others are.
            for (long size : shape.contains(0L) ? List.of(0L) : shape) {
                bytes = Math.multiplyExact(bytes, size);
            }
        } catch (ArithmeticException e) {
            throw error(what + "with the shape " + shape + ", which is more than any file holds");
        }
        if (bytes != offsets.get(1) - offsets.get(0)) {
            throw error(what + "of " + bytes + " bytes by its shape " + shape + " and dtype " + dtype + ", but of "
                    + (offsets.get(1) - offsets.get(0)) + " bytes by its data_offsets " + offsets);
        }
        return new SafetensorsEntry(dtype, shape, offsets.get(0), offsets.get(1));
    }

    private List<Long> wholeNumbers(String what, JsonElement element) throws IOException {
        List<Long> numbers = new ArrayList<>();
        if (element != null && element.isJsonArray()) {
            for (JsonElement item : element.getAsJsonArray()) {
                // 18 digits fit into a long.
                if (!(item instanceof JsonPrimitive number)
                        || !number.isNumber()
                        || !number.getAsString().matches("\\d{1,18}")) {
                    throw error(what + element + "; it must be whole numbers from 0");
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
                        + " of the data; the one before it ends at " + end);
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
                throw error("became shorter while it was read");
            }
            position += count;
        }
    }

    private static void writeFully(FileChannel channel, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            channel.write(buffer);
        }
    }

    /** The memory of a contiguous CPU tensor, from a byte on, at most a chunk of it. */
    private static ByteBuffer bytes(Tensor tensor, long from) {
        long to = Math.min(from + CHUNK, tensor.nbytes());
        return new BytePointer(tensor.data_ptr()).position(from).limit(to).asByteBuffer();
    }
}
