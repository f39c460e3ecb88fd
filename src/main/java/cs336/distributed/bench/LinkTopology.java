package cs336.distributed.bench;

import static cs336.bench.Measurement.once;
import static cs336.units.UnitFactors.GB;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Provenance;
import cs336.bench.WholeFile;
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
 * The links between the GPUs of a machine, from the output of {@code nvidia-smi topo -m} and {@code nvidia-smi nvlink
 * -s}.
 *
 * @param links the matrix of links: {@code X} from a GPU to itself, {@code NV18} for 18 NVLinks, and {@code PIX},
 *     {@code PXB}, {@code PHB}, {@code NODE} or {@code SYS} for increasingly long paths through PCIe
 * @param linkBandwidth bandwidth of one NVLink of the first GPU in one direction, in bytes per second; 0 without NVLink
 */
public record LinkTopology(List<List<String>> links, double linkBandwidth) {
    private static final Pattern ROW = Pattern.compile("(?m)^GPU\\d+\\s(.*)$");
    private static final Pattern COLUMN = Pattern.compile("GPU\\d+\\b");
    private static final Pattern COLOURS = Pattern.compile("\u001b\\[[0-9;]*m");
    private static final Pattern SPEED = Pattern.compile("Link \\d+: ([0-9.]+) GB/s");
    private static final Pattern NVLINKS = Pattern.compile("NV(\\d+)");

    /** Copies the matrix. */
    public LinkTopology {
        links = links.stream().map(List::copyOf).toList();
    }

    /**
     * Parses the output of the two commands.
     *
     * @param topology output of {@code nvidia-smi topo -m}
     * @param nvlinks output of {@code nvidia-smi nvlink -s}
     * @throws IllegalArgumentException if the topology contains no matrix of GPUs
     */
    public static LinkTopology parse(String topology, String nvlinks) {
        String plain = COLOURS.matcher(topology).replaceAll("");
        String header =
                plain.lines().filter(line -> line.contains("GPU0")).findFirst().orElse("");
        int gpus = (int) COLUMN.matcher(header).results().count();
        List<List<String>> rows = new ArrayList<>();
        for (Matcher row = ROW.matcher(plain); row.find(); ) {
            List<String> cells = List.of(row.group(1).strip().split("\\s+"));
            if (cells.size() >= gpus) {
                rows.add(cells.subList(0, gpus));
            }
        }
        if (gpus == 0 || rows.size() != gpus) {
            String begin = plain.lines().findFirst().orElse("nothing");
            throw new IllegalArgumentException("topology must contain nvidia-smi's matrix of GPUs, not: " + begin);
        }
        Matcher speed = SPEED.matcher(nvlinks);
        return new LinkTopology(rows, speed.find() ? Double.parseDouble(speed.group(1)) * GB : 0);
    }

    /**
     * Runs {@code nvidia-smi} and stores its output in {@code topology.txt} and the links of each pair of GPUs in
     * {@code link_topology.csv}. Does nothing if they are stored already, and prints the reason if {@code nvidia-smi}
     * fails.
     *
     * @param folder folder of all machines' measurements
     * @param provenance the machine and its GPUs
     */
    static void record(Path folder, Provenance provenance) throws IOException {
        Measurements measurements = Measurements.of(folder, provenance.machine(), "link_topology");
        if (Files.exists(measurements.path())) {
            return;
        }
        try {
            String matrix = NvidiaSmi.output("topo", "-m");
            String nvlinks = NvidiaSmi.output("nvlink", "-s");
            parse(matrix, nvlinks).store(measurements, provenance);
            WholeFile.write(
                    measurements.path().resolveSibling("topology.txt"),
                    COLOURS.matcher(matrix).replaceAll("") + "\n" + nvlinks.replaceAll(" ?\\(UUID: [^)]*\\)", ""));
        } catch (IOException | IllegalArgumentException e) {
            System.out.println("the links between the GPUs are not recorded: " + e.getMessage());
        }
    }

    private void store(Measurements measurements, Provenance provenance) throws IOException {
        for (int from = 0; from < links.size(); from++) {
            for (int to = 0; to < links.size(); to++) {
                if (from == to) {
                    continue;
                }
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

    /**
     * Returns the number of NVLinks between two GPUs, given by their indices from 0; 0 if they communicate through
     * PCIe.
     */
    public int nvLinks(int from, int to) {
        Matcher nvlinks = NVLINKS.matcher(links.get(from).get(to));
        return nvlinks.matches() ? Integer.parseInt(nvlinks.group(1)) : 0;
    }

    /**
     * Returns the nominal NVLink bandwidth from one GPU to another in bytes per second; 0 without NVLink. With an
     * NVSwitch, a GPU can use all its links for any single peer.
     */
    public double nvLinkBandwidth(int from, int to) {
        return nvLinks(from, to) * linkBandwidth;
    }

    /** Returns the number of pairs of GPUs by kind of link. */
    public Map<String, Integer> pairs() {
        Map<String, Integer> pairs = new TreeMap<>();
        for (int i = 0; i < links.size(); i++) {
            for (int j = i + 1; j < links.size(); j++) {
                pairs.merge(links.get(i).get(j), 1, Integer::sum);
            }
        }
        return pairs;
    }
}
