package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How the cards of a machine are linked, as {@code nvidia-smi topo -m} and {@code nvidia-smi nvlink -s} print it.
 *
 * @param links what lies between each two cards, row by row: {@code X} for a card and itself, {@code NV18} for 18
 *     NVLinks, {@code PIX}, {@code PXB}, {@code PHB}, {@code NODE} or {@code SYS} for the ever longer ways through PCIe
 * @param linkBandwidth of one NVLink of the first card in one direction, in bytes a second; 0 where there is none
 */
public record LinkTopology(List<List<String>> links, double linkBandwidth) {
    private static final Pattern ROW = Pattern.compile("(?m)^GPU\\d+\\s(.*)$");
    private static final Pattern COLUMN = Pattern.compile("GPU\\d+\\b");
    private static final Pattern COLOURS = Pattern.compile("\u001b\\[[0-9;]*m");
    private static final Pattern SPEED = Pattern.compile("Link \\d+: ([0-9.]+) GB/s");
    private static final Pattern NVLINKS = Pattern.compile("NV(\\d+)");
    private static final double GB = 1e9;

    public LinkTopology {
        links = links.stream().map(List::copyOf).toList();
    }

    /**
     * Reads what the two commands printed.
     *
     * @throws IllegalArgumentException if the first has no matrix of cards
     */
    public static LinkTopology parse(String topology, String nvlinks) {
        String plain = COLOURS.matcher(topology).replaceAll("");
        String header =
                plain.lines().filter(line -> line.contains("GPU0")).findFirst().orElse("");
        int cards = (int) COLUMN.matcher(header).results().count();
        List<List<String>> rows = new ArrayList<>();
        for (Matcher row = ROW.matcher(plain); row.find(); ) {
            List<String> cells = List.of(row.group(1).strip().split("\\s+"));
            if (cells.size() >= cards) rows.add(cells.subList(0, cards));
        }
        if (cards == 0 || rows.size() != cards) {
            String begin = plain.lines().findFirst().orElse("nothing");
            throw new IllegalArgumentException("topology must hold nvidia-smi's matrix of cards, not: " + begin);
        }
        Matcher speed = SPEED.matcher(nvlinks);
        return new LinkTopology(rows, speed.find() ? Double.parseDouble(speed.group(1)) * GB : 0);
    }

    /**
     * Asks {@code nvidia-smi} and stores what it says, word for word in {@code topology.txt} and the links of each two
     * cards in {@code link_topology.csv}. Does nothing where that is stored already, and says so where
     * {@code nvidia-smi} cannot be had.
     *
     * @param folder of all measurements
     * @param provenance of the cards
     */
    static void record(Path folder, Provenance provenance) throws IOException {
        Measurements measurements = Measurements.of(folder, provenance.machine(), "link_topology");
        if (Files.exists(measurements.path())) return;
        try {
            String matrix = NvidiaSmi.said("topo", "-m");
            String nvlinks = NvidiaSmi.said("nvlink", "-s");
            parse(matrix, nvlinks).store(measurements, provenance);
            Files.writeString(
                    measurements.path().resolveSibling("topology.txt"),
                    COLOURS.matcher(matrix).replaceAll("") + "\n" + nvlinks.replaceAll(" ?\\(UUID: [^)]*\\)", ""));
        } catch (IOException | IllegalArgumentException e) {
            System.out.println("the cards' links are not recorded: " + e.getMessage());
        }
    }

    private void store(Measurements measurements, Provenance provenance) throws IOException {
        for (int from = 0; from < links.size(); from++) {
            for (int to = 0; to < links.size(); to++) {
                if (from == to) continue;
                Case pair = Case.measuredHere("nvidia-smi")
                        .with("from", from)
                        .with("to", to)
                        .with("link", links.get(from).get(to));
                List<Measurement> rows = List.of(
                        once("nvlinks", "links", nvLinks(from, to)),
                        once("nvlink-bandwidth", "GB/s", nvLinkBandwidth(from, to) / GB));
                measurements.put(pair, rows, provenance);
            }
        }
    }

    private static Measurement once(String metric, String unit, double value) {
        return Measurement.of(Samples.once(new Metric(metric, unit), value));
    }

    /** How many NVLinks join two cards; 0 where they are joined through PCIe. */
    public int nvLinks(int from, int to) {
        Matcher nvlinks = NVLINKS.matcher(links.get(from).get(to));
        return nvlinks.matches() ? Integer.parseInt(nvlinks.group(1)) : 0;
    }

    /**
     * Bytes a second that one card can send to another over NVLink, in one direction, as the links themselves say; 0
     * without any. Behind a switch, a card has all its links for whatever card it talks to.
     */
    public double nvLinkBandwidth(int from, int to) {
        return nvLinks(from, to) * linkBandwidth;
    }

    /** How many pairs of cards there are of each kind of link. */
    public Map<String, Integer> pairs() {
        Map<String, Integer> pairs = new TreeMap<>();
        for (int i = 0; i < links.size(); i++) {
            for (int j = i + 1; j < links.size(); j++) pairs.merge(links.get(i).get(j), 1, Integer::sum);
        }
        return pairs;
    }
}
