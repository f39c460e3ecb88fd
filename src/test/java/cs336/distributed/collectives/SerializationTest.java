package cs336.distributed.collectives;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cs336.bench.AttackCount;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

class SerializationTest {
    private static final int DAMAGED_INPUTS = 20_000;

    private record Pair(String name, List<Double> values, Duration[] times, Reduction reduction)
            implements Serializable {}

    private record AtMostTen(int n) implements Serializable {
        private AtMostTen {
            if (n > 10) {
                throw new IllegalArgumentException("n must be at most 10, not " + n);
            }
        }
    }

    /** A class whose deserialization has an effect, like those that attackers use. */
    static final class TrapClass implements Serializable {
        private static final long serialVersionUID = 1;
        static boolean sprung;

        private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
            sprung = true;
            in.defaultReadObject();
        }
    }

    private static <T> T sent(Serializable value) {
        return Serialization.ofLine(Serialization.line(value));
    }

    @Test
    void valuesArriveUnchanged() {
        assertNull(sent(null));
        for (Serializable value : List.<Serializable>of(
                true,
                false,
                (byte) -7,
                (short) 300,
                'ß',
                Integer.MIN_VALUE,
                Long.MAX_VALUE,
                1.5f,
                -0.0,
                Double.NaN,
                "",
                "naïve 𝛼",
                Duration.ofNanos(-1),
                Reduction.MAX,
                new AtMostTen(3))) {
            assertEquals(value, sent(value));
        }
        var map = new LinkedHashMap<>(Map.of("a", new ArrayList<>(List.of(1L, 2L)), "b", new ArrayList<Long>()));
        assertEquals(map, sent(map));
        assertInstanceOf(TreeMap.class, sent(new TreeMap<>(Map.of(2, "b", 1, "a"))));
        assertEquals(new TreeSet<>(List.of("x", "y")), sent(new TreeSet<>(List.of("x", "y"))));
        assertEquals(
                List.of("z", "a"),
                List.copyOf(SerializationTest.<LinkedHashSet<String>>sent(new LinkedHashSet<>(List.of("z", "a")))));
        assertArrayEquals(new double[] {1, Double.NEGATIVE_INFINITY}, sent(new double[] {1, Double.NEGATIVE_INFINITY}));
        assertArrayEquals(new byte[] {1, -1}, SerializationTest.<byte[]>sent(new byte[] {1, -1}));
        assertArrayEquals(new long[][] {{1}, null, {}}, SerializationTest.<long[][]>sent(new long[][] {{1}, null, {}}));
        assertArrayEquals(new String[] {"a", null}, SerializationTest.<String[]>sent(new String[] {"a", null}));
        Pair pair = sent(new Pair("p", List.of(0.5), new Duration[] {Duration.ZERO}, Reduction.SUM));
        assertEquals("p[0.5]SUM", pair.name + pair.values + pair.reduction);
        assertArrayEquals(new Duration[] {Duration.ZERO}, pair.times);
    }

    @Test
    void valuesOfOtherClassesAreRejectedWhenSent() {
        var cycle = new ArrayList<Object>();
        cycle.add(cycle);
        var reversed = new TreeMap<String, String>(Comparator.reverseOrder());
        for (Serializable value :
                List.<Serializable>of(new TrapClass(), cycle, reversed, new ArrayDeque<>(), new IOException())) {
            var e = assertThrows(IllegalArgumentException.class, () -> Serialization.bytes(value));
            assertTrue(
                    e.getMessage().startsWith("a value of " + value.getClass().getName()), e.getMessage());
        }
    }

    @Test
    void bytesCallNoCodeButConstructorsOfRecords() throws IOException {
        var stream = new ByteArrayOutputStream();
        try (var out = new ObjectOutputStream(stream)) {
            out.writeObject(new TrapClass());
        }
        assertThrows(IllegalArgumentException.class, () -> Serialization.value(stream.toByteArray()));
        byte[] record = Serialization.bytes(new AtMostTen(3));
        String damaged = "a value from another process is damaged: ";
        byte[] renamed = new String(record, StandardCharsets.ISO_8859_1)
                .replace("AtMostTen", "TrapClass")
                .getBytes(StandardCharsets.ISO_8859_1);
        assertEquals(
                damaged + TrapClass.class.getName() + " is not a serializable record",
                assertThrows(IllegalArgumentException.class, () -> Serialization.value(renamed))
                        .getMessage());
        byte[] large = record.clone();
        large[large.length - 1] = 11;
        assertEquals(
                damaged + AtMostTen.class.getName()
                        + " rejects its components: java.lang.IllegalArgumentException: n must be at most 10, not 11",
                assertThrows(IllegalArgumentException.class, () -> Serialization.value(large))
                        .getMessage());
        assertFalse(TrapClass.sprung);
    }

    @Test
    void damagedBytesGiveOneKindOfErrorAndNoLargeAllocation() {
        var random = new Random(7);
        byte[] whole = Serialization.bytes(new ArrayList<>(List.of(
                new Pair("p", List.of(0.5), new Duration[] {Duration.ZERO}, Reduction.SUM),
                new TreeMap<>(Map.of("k", new double[3])),
                new LinkedHashSet<>(List.of(1, 2)))));
        int tried = AttackCount.times(DAMAGED_INPUTS);
        for (int i = 0; i < tried; i++) {
            byte[] bytes = random.nextInt(4) == 0 ? new byte[random.nextInt(40)] : whole.clone();
            if (bytes.length < whole.length) {
                random.nextBytes(bytes);
            } else if (random.nextBoolean()) {
                bytes = Arrays.copyOf(bytes, random.nextInt(bytes.length));
            } else {
                for (int j = random.nextInt(4); j >= 0; j--) {
                    bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
                }
            }
            try {
                Serialization.value(bytes);
            } catch (IllegalArgumentException | IllegalStateException e) {
                assertTrue(e.getMessage() != null && !e.getMessage().isEmpty());
            }
        }
        AttackCount.inputs(tried, "damaged values from other ranks");
    }

    @Test
    void nothingInTheProjectReadsJavaSerialization() throws IOException {
        try (var files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(f -> f.toString().endsWith(".java")).toList()) {
                assertFalse(Files.readString(file).contains("ObjectInputStream"), file + " uses ObjectInputStream");
            }
        }
    }
}
