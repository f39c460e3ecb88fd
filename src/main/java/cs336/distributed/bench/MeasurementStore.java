package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.bench.Status;
import cs336.bench.StorageOptions;
import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.Device;
import cs336.units.Progress;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * An open {@link MeasurementFile}. Every rank may open it, but only rank 0 may write.
 *
 * @param measurements the stored measurements
 * @param provenance the origin of new measurements
 * @param again whether to repeat cases that are already stored
 */
public record MeasurementStore(Measurements measurements, Provenance provenance, boolean again) {
    /**
     * Opens a file.
     *
     * @param device this rank's device
     * @param gpus number of GPUs that take part, at least 1; ignored on the CPU
     */
    public static MeasurementStore of(MeasurementFile storage, Device device, int gpus) {
        Provenance provenance =
                Provenance.of(device, device.isCuda() ? gpus : 1).named(storage.machine());
        var measurements = Measurements.of(Path.of(storage.folder()), provenance.machine(), storage.problem());
        return new MeasurementStore(measurements, provenance, storage.again());
    }

    /** Returns the path of the file. */
    public Path path() {
        return measurements.path();
    }

    /**
     * Returns the cases that must be measured according to rank 0's file. All ranks call it. Rank 0 prints how many
     * cases are stored already.
     *
     * @throws IllegalArgumentException if the file's parameter columns differ from the parameters of a case
     */
    public List<Case> lacking(ProcessGroup group, List<Case> cases) throws IOException {
        ArrayList<Case> lacking = group.rank() == 0 ? lacking(cases) : new ArrayList<>();
        if (group.rank() == 0) {
            reportStored(cases.size() - lacking.size(), cases.size());
        }
        return group.allGather(lacking).get(0);
    }

    /** Returns the cases that must be measured according to this process's file. */
    ArrayList<Case> lacking(List<Case> cases) throws IOException {
        var lacking = new ArrayList<Case>();
        for (Case c : cases) {
            measurements.requireSameColumns(c);
            if (again || !measurements.holds(c)) {
                lacking.add(c);
            }
        }
        return lacking;
    }

    /** Stores a case's samples and replaces earlier ones of the same case. */
    public void put(Case c, List<Samples> samples) throws IOException {
        put(c, samples, Status.OK);
    }

    private void put(Case c, List<Samples> samples, Status status) throws IOException {
        List<Measurement> rows = samples.stream()
                .map(each -> new Measurement(each.metric(), each.summary(), status))
                .toList();
        measurements.put(c, rows, provenance.updated());
    }

    /** Stores the samples collected so far on rank 0, see {@link #put(Case, SampleCollector, boolean, boolean)}. */
    void put(ProcessGroup group, Case c, SampleCollector collected, boolean isLast) throws IOException {
        if (group.rank() == 0) {
            put(c, collected, isLast, false);
        }
    }

    /** Stores the samples collected so far and the values of their steps on rank 0. */
    void putWithSteps(ProcessGroup group, Case c, SampleCollector collected, boolean isLast) throws IOException {
        if (group.rank() == 0) {
            put(c, collected, isLast, true);
        }
    }

    /**
     * Stores the samples collected so far, if there are any, and replaces earlier ones of the same case. Until all
     * rounds and all metrics of the case are measured, they have the status {@link Status#INCOMPLETE} and do not
     * replace a complete result.
     *
     * @param isLast whether this was the last round
     */
    void put(Case c, SampleCollector collected, boolean isLast, boolean withSteps) throws IOException {
        List<Samples> samples = collected.samples();
        boolean isComplete =
                isLast && samples.stream().map(Samples::metric).toList().containsAll(c.metrics());
        if (samples.isEmpty() || !isComplete && measurements.holds(c)) {
            return;
        }
        if (withSteps) {
            measurements.putSteps(c, samples);
        }
        put(c, samples, isComplete ? Status.OK : Status.INCOMPLETE);
    }

    /** Prints that cases are not measured again, if there are any. */
    void reportStored(int stored, int all) {
        if (stored > 0) {
            System.out.printf(
                    "%d of %s stored already in %s; --again measures them again%n",
                    stored, StorageOptions.numberOfCases(all), path());
        }
    }

    /**
     * Prints on rank 0 that the measurement of a case begins.
     *
     * @param part the part of the benchmark, such as {@code memory} or {@code round 1 of 2}
     */
    static void reportStart(ProcessGroup group, String part, List<Case> cases, int index) {
        if (group.rank() == 0) {
            System.out.printf("%s [%d/%d] %s%n", part, index + 1, cases.size(), cases.get(index));
        }
    }

    /** A measurement of the case with this index. */
    @FunctionalInterface
    interface CaseMeasurement {
        void measure(int index) throws IOException;
    }

    /** A measurement of the case with this index in one of several rounds, which may be the last one. */
    @FunctionalInterface
    interface RoundMeasurement {
        void measure(int index, boolean isLast) throws IOException;
    }

    /** Measures each case, after {@link #reportStart}. All ranks call it. */
    static void measureEach(ProcessGroup group, String part, List<Case> cases, CaseMeasurement measurement)
            throws IOException {
        for (int i = 0; i < cases.size(); i++) {
            reportStart(group, part, cases, i);
            measurement.measure(i);
        }
    }

    /**
     * Measures all cases in each round, so that they are interleaved. Rank 0 prints the start of each and the end of
     * each round. All ranks call it.
     */
    void measureRounds(ProcessGroup group, int rounds, List<Case> cases, RoundMeasurement measurement)
            throws IOException {
        Progress progress = Progress.start(rounds);
        for (int round = 1; round <= rounds && !cases.isEmpty(); round++) {
            String name = "round " + round + " of " + rounds;
            boolean isLast = round == rounds;
            measureEach(group, name, cases, i -> measurement.measure(i, isLast));
            if (group.rank() == 0) {
                System.out.printf("%s is stored in %s · %s%n", name, path(), progress.times(round));
            }
        }
    }
}
