package cs336.safetensors;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import cs336.bench.RandomDamage;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.ScopedTest;
import cs336.torch.Tensors;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.ScalarType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class SafetensorsTest extends ScopedTest {
    private static final Device CPU = Device.cpu();

    @TempDir
    Path folder;

    private Path file(String header, int dataLength) throws IOException {
        byte[] json = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer bytes = ByteBuffer.allocate(8 + json.length + dataLength).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(json.length).put(json);
        for (int i = 0; i < dataLength; i++) {
            bytes.put((byte) (i + 1));
        }
        return Files.write(folder.resolve("x.safetensors"), bytes.array());
    }

    @Test
    void aHandWrittenFileIsRead() throws IOException {
        ByteBuffer data = ByteBuffer.allocate(32).order(ByteOrder.LITTLE_ENDIAN);
        data.putLong(-7)
                .putFloat(1.5f)
                .putFloat(-2f)
                .putFloat(0.25f)
                .putFloat(1e-20f)
                .putFloat(3)
                .putFloat(4);
        Path file = file(
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[8,32]},"
                        + "\"__metadata__\":{\"step\":\"12\"},"
                        + "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}   ",
                32);
        byte[] bytes = Files.readAllBytes(file);
        System.arraycopy(data.array(), 0, bytes, bytes.length - 32, 32);
        Files.write(file, bytes);
        try (Safetensors saved = Safetensors.open(file)) {
            assertEquals(List.of("w", "n"), List.copyOf(saved.entries().keySet()));
            assertEquals(Map.of("step", "12"), saved.metadata());
            assertEquals(-7, saved.tensor("n", CPU).item_long());
            float[] values = new float[6];
            saved.tensor("w", CPU).data_ptr_float().get(values);
            assertArrayEquals(new float[] {1.5f, -2f, 0.25f, 1e-20f, 3, 4}, values);
            assertEquals(3, saved.tensor("w", CPU).size(0));
            assertThrows(IllegalArgumentException.class, () -> saved.tensor("x", CPU));
        }
    }

    @Test
    void writtenBytesFollowTheFormat() throws IOException {
        Path file = folder.resolve("y.safetensors");
        Safetensors.write(file, Map.of("w", Tensor.create(1f, -2f)), Map.of("a", "b"));
        byte[] bytes = Files.readAllBytes(file);
        ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int length = (int) buffer.getLong();
        assertEquals(0, length % 8);
        assertEquals(
                "{\"__metadata__\":{\"crc32c\":\"" + checksum(bytes)
                        + "\",\"a\":\"b\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
                new String(bytes, 8, length, StandardCharsets.UTF_8).stripTrailing());
        assertEquals(1f, buffer.getFloat(8 + length));
        assertEquals(-2f, buffer.getFloat(12 + length));
        assertEquals(16 + length, bytes.length);
    }

    /** Returns the checksum of a written file, calculated bit by bit. */
    private static String checksum(byte[] file) {
        byte[] bytes = file.clone();
        int at = new String(bytes, StandardCharsets.ISO_8859_1).indexOf("\"crc32c\":\"") + 10;
        Arrays.fill(bytes, at, at + 8, (byte) '0');
        int sum = -1;
        for (byte b : bytes) {
            sum ^= b & 0xff;
            for (int bit = 0; bit < 8; bit++) {
                sum = sum >>> 1 ^ ((sum & 1) == 0 ? 0 : 0x82f63b78); // the reversed Castagnoli polynomial
            }
        }
        return String.format("%08x", ~sum);
    }

    @Test
    void everyChangedBitIsFound() throws IOException {
        Path file = folder.resolve("w.safetensors");
        Map<String, Tensor> tensors = Map.of("w", torch.randn(3, 5), "n", torch.ones(2));
        Safetensors.write(file, tensors, Map.of("step", "7"));
        try (Safetensors saved = Safetensors.open(file)) {
            saved.requireIntact();
            assertEquals(Map.of("step", "7"), saved.metadata());
        }
        byte[] bytes = Files.readAllBytes(file);
        for (int bit = 0; bit < 8 * bytes.length; bit++) {
            byte[] changed = bytes.clone();
            changed[bit / 8] ^= (byte) (1 << bit % 8);
            requireDamaged(Files.write(file, changed));
        }
        for (int length = 0; length < bytes.length; length++) {
            requireDamaged(Files.write(file, Arrays.copyOf(bytes, length)));
        }
        AttackCount.inputs(9L * bytes.length, "damaged checkpoints");
        assertThrows(
                IllegalArgumentException.class, () -> Safetensors.write(file, tensors, Map.of("crc32c", "12345678")));
    }

    private static void requireDamaged(Path file) {
        IOException e = assertThrows(IOException.class, () -> {
            try (Safetensors saved = Safetensors.open(file)) {
                saved.requireIntact();
            }
        });
        assertTrue(e.getMessage().startsWith(file.toString()), e.getMessage());
    }

    @ParameterizedTest
    @EnumSource
    void everyDtypeIsReadBackExactly(DType dtype) throws IOException {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        tensors.put("flag", Tensor.create(true, false, true));
        tensors.put(
                "w",
                torch.randn(5, 7)
                        .mul(torch.scalar_tensor(new org.bytedeco.pytorch.Scalar(3)))
                        .to(dtype.scalarType()));
        tensors.put("view", tensors.get("w").t());
        tensors.put("scalar", torch.ones(new long[0], CPU.options(dtype)));
        tensors.put("empty ü", torch.zeros(2, 0, 3));
        Path file = folder.resolve("z.safetensors");
        Safetensors.write(file, tensors, Map.of());
        try (Safetensors saved = Safetensors.open(file)) {
            assertEquals(
                    List.copyOf(tensors.keySet()), List.copyOf(saved.entries().keySet()));
            for (var entry : tensors.entrySet()) {
                Tensor read = saved.tensor(entry.getKey(), CPU);
                assertEquals(DType.of(entry.getValue()), DType.of(read));
                assertTrue(torch.equal(entry.getValue(), read), entry.getKey());
            }
        }
    }

    @Test
    void aTensorOfSeveralChunksIsReadBack() throws IOException {
        Tensor big = torch.arange(new org.bytedeco.pytorch.Scalar(9_000_000), CPU.options(DType.INT64)); // 72 MB
        Path file = folder.resolve("big.safetensors");
        Safetensors.write(file, Map.of("big", big), Map.of());
        try (Safetensors saved = Safetensors.open(file)) {
            assertTrue(torch.equal(big, saved.tensor("big", CPU)));
        }
    }

    @Test
    void lazilyConjugatedAndNegatedTensorsAreWrittenByTheirValues() throws IOException {
        Tensor z = torch.view_as_complex(Tensors.of(new float[] {1, 2}, 2));
        Path file = folder.resolve("z.safetensors");
        Safetensors.write(file, Map.of("c", z.conj(), "im", torch.imag(z.conj())), Map.of());
        try (Safetensors saved = Safetensors.open(file)) {
            assertEquals(-2, torch.imag(saved.tensor("c", CPU)).item_float());
            assertEquals(-2, saved.tensor("im", CPU).item_float());
        }
    }

    @Test
    void aMetadataEntryWithoutTextIsRefused() {
        Map<String, String> metadata = new HashMap<>();
        metadata.put("step", null);
        Path file = folder.resolve("null.safetensors");
        var e = assertThrows(NullPointerException.class, () -> Safetensors.write(file, Map.of(), metadata));
        assertEquals("metadata 'step' must not be null", e.getMessage());
    }

    @Test
    void aTensorThatCannotBeWrittenIsNamed() {
        Path file = folder.resolve("refused.safetensors");
        Tensor closed = torch.ones(1);
        closed.close();
        Tensor narrow = torch.ones(1).to(ScalarType.Short);
        Map<String, Tensor> refused = new LinkedHashMap<>();
        refused.put("tensor 'w' must not be null", null);
        refused.put("tensor 'w' is closed; its memory scope has ended", closed);
        refused.put("tensor 'w' cannot be written: tensor has the unsupported dtype Short", narrow);
        refused.forEach((message, tensor) -> {
            Map<String, Tensor> tensors = new HashMap<>();
            tensors.put("w", tensor);
            var e = assertThrows(IllegalArgumentException.class, () -> Safetensors.write(file, tensors, Map.of()));
            assertEquals(message, e.getMessage());
        });
    }

    @Test
    void aFailedWriteKeepsTheOldFileAndLeavesNoOther() throws IOException {
        Path file = folder.resolve("old.safetensors");
        Safetensors.write(file, Map.of("w", torch.ones(2)), Map.of());
        byte[] old = Files.readAllBytes(file);
        Map<String, Tensor> bad = new LinkedHashMap<>();
        bad.put("w", torch.zeros(2));
        bad.put("undefined", new Tensor());
        assertThrows(RuntimeException.class, () -> Safetensors.write(file, bad, Map.of()));
        assertThrows(
                IllegalArgumentException.class,
                () -> Safetensors.write(file, Map.of("__metadata__", torch.ones(1)), Map.of()));
        assertArrayEquals(old, Files.readAllBytes(file));
        try (var files = Files.list(folder)) {
            assertEquals(1, files.count());
        }
        Safetensors.write(file, Map.of("w", torch.zeros(2)), Map.of());
        try (var files = Files.list(folder)) {
            assertEquals(1, files.count());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "[]                                                                  | 0 | has a header that is not a JSON object",
                "{\"w\":1}                                                           | 0 | has a tensor 'w' that is not an object",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}     | 8 | cannot be read: its header is not JSON",
                "{\"w\":{\"dtype\":8,\"shape\":[2],\"data_offsets\":[0,8]}}          | 8 | has a tensor 'w' with the dtype 8; it must",
                "{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}                      | 8 | has a tensor 'w' with the dtype null; it must",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}   | 8 | has a tensor 'w' with the shape [-2]; it must",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}  | 8 | has a tensor 'w' with the shape [2.0]; it must",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}      | 8 | has a tensor 'w' with the shape 2; it must",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}      | 8 | has a tensor 'w' with the data_offsets [0]",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}    | 8 | has a tensor 'w' with the data_offsets [8, 0]",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,16]}}   | 8 | has a tensor 'w' with the data_offsets [0, 16]; they",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}    | 8 | has a tensor 'w' with 12 bytes according to its shape [3]",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[99999999999,99999999999],\"data_offsets\":[0,8]}} | 8 | has a tensor 'w' with the shape [99999999999, 99999999999], which",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[99999999999,99999999999,0],\"data_offsets\":[0,0]}} | 0 | has a tensor 'w' with the shape [99999999999, 99999999999, 0], which",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}    | 8 | has a tensor 'w' that begins at byte 4",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}    | 8 | has 8 bytes of data, but its tensors end at 4",
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}} | 8 | has a tensor 'b' that begins at byte 4",
                "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} | 8 | cannot be read: its header is not JSON: duplicate name 'w'",
                "{\"__metadata__\":{\"a\":1}}                                        | 0 | has metadata 'a' that is not a string",
                "{\"__metadata__\":[]}                                               | 0 | has a __metadata__ that is not an object",
            })
    void anInvalidHeaderIsRefusedWithTheReason(String header, int dataLength, String message) throws IOException {
        assertRefused(file(header, dataLength), message);
    }

    @Test
    void onlyTheTensorsOfAnUnknownDtypeCannotBeRead() throws IOException {
        Path file = file(
                "{\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                        + "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                8);
        try (var saved = Safetensors.open(file);
                var scope = MemoryScope.open()) {
            assertEquals(
                    new SafetensorsEntry("I16", null, List.of(2L), 0, 4),
                    saved.entries().get("a"));
            assertEquals("I16", saved.entries().get("a").dtypeLabel());
            assertEquals("fp32", saved.entries().get("b").dtypeLabel());
            assertEquals(1, saved.tensor("b", CPU).numel());
            var e = assertThrows(IOException.class, () -> saved.tensor("a", CPU));
            String message = file + " has a tensor 'a' with the dtype I16, which cannot be read; known: [";
            assertTrue(e.getMessage().startsWith(message), e.getMessage());
        }
    }

    /** Files without a checksum and with random damage; the only failures are IOExceptions that name the file. */
    @Test
    void anyDamageOfAFileWithoutChecksumIsReportedOrHarmless() throws IOException {
        byte[] whole = Files.readAllBytes(file(
                "{\"__metadata__\":{\"step\":\"7\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                        + "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]}}",
                16));
        byte[] likely = "{}[]\",:-9e\0\n".getBytes(StandardCharsets.US_ASCII);
        var random = new Random(336);
        int reported = 0;
        int tried = AttackCount.times(2000);
        for (int i = 0; i < tried; i++) {
            byte[] bytes = RandomDamage.of(
                    whole,
                    random,
                    () -> random.nextBoolean() ? random.nextInt() : likely[random.nextInt(likely.length)]);
            Path file = Files.write(folder.resolve("damaged.safetensors"), bytes);
            try (var saved = Safetensors.open(file);
                    var scope = MemoryScope.open()) {
                for (String name : saved.entries().keySet()) {
                    saved.tensor(name, Device.cpu());
                }
            } catch (IOException e) {
                assertTrue(e.getMessage().startsWith(file + " "), e.getMessage());
                reported++;
            }
        }
        assertTrue(reported > tried / 3 && reported < tried, "" + reported);
        AttackCount.inputs(tried, "damaged safetensors without a checksum");
    }

    @Test
    void aFolderOrADeviceIsNamed() {
        for (Path file : List.of(folder, Path.of("/dev/null"))) {
            var e = assertThrows(IOException.class, () -> Safetensors.open(file));
            assertEquals(file + " is not a regular file", e.getMessage());
        }
    }

    @Test
    void anInvalidLengthIsRefusedBeforeMemoryIsAllocated() throws IOException {
        assertRefused(Files.write(folder.resolve("a"), new byte[5]), "has 5 bytes, but the length");
        for (long length : new long[] {-1, 0, 17, Long.MAX_VALUE, 100_000_001}) {
            ByteBuffer bytes = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN);
            Path file = Files.write(folder.resolve("b"), bytes.putLong(length).array());
            assertRefused(
                    file,
                    "has a header length of " + Long.toUnsignedString(length) + " bytes; it must be from 2 to 16");
        }
        byte[] notUtf8 = new byte[10];
        Arrays.fill(notUtf8, (byte) 0xff);
        ByteBuffer bytes = ByteBuffer.allocate(18).order(ByteOrder.LITTLE_ENDIAN);
        assertRefused(
                Files.write(folder.resolve("c"), bytes.putLong(10).put(notUtf8).array()),
                "has a header that is not UTF-8");
    }

    private static void assertRefused(Path file, String message) {
        var error = assertThrows(IOException.class, () -> Safetensors.open(file).close());
        assertTrue(error.getMessage().startsWith(file + " " + message), error.getMessage());
    }

    @Test
    void aClosedFileIsNamed() throws Exception {
        Path file = folder.resolve("closed.safetensors");
        Safetensors.write(file, Map.of("w", torch.ones(2)), Map.of());
        Safetensors closed = Safetensors.open(file);
        closed.close();
        var e = assertThrows(IllegalStateException.class, () -> closed.tensor("w", Device.cpu()));
        assertEquals(file + " is closed", e.getMessage());
    }
}
