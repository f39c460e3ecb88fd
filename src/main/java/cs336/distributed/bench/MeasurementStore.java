package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.distributed.collectives.ProcessGroup;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A {@link MeasurementFile} that is open: which cases it lacks, and where they go. Every rank may have it; rank 0
 * writes.
 */
public record MeasurementStore(Measurements measurements, Provenance provenance, boolean again) {
    /** @param cards that take part, at least 1, where the device is one */
    public static MeasurementStore of(MeasurementFile storage, Device device, int cards) {
        Provenance provenance =
                Provenance.of(device, device.isCuda() ? cards : 1).named(storage.machine());
        var measurements = Measurements.of(Path.of(storage.folder()), provenance.machine(), storage.problem());
        return new MeasurementStore(measurements, provenance, storage.again());
    }

    public Path path() {
        return measurements.path();
    }

    /** Whether the case is to be measured. */
    public boolean lacks(Case c) throws IOException {
        measurements.requireSameColumns(c);
        return again || !measurements.holds(c);
    }

    /** The cases that rank 0 lacks. All ranks call it. */
    public List<Case> lacking(ProcessGroup group, List<Case> cases) throws IOException {
        var lacking = new ArrayList<Case>();
        if (group.rank() == 0) {
            for (Case c : cases) if (lacks(c)) lacking.add(c);
        }
        return group.allGather(lacking).get(0);
    }

    public void put(Case c, List<Samples> samples) throws IOException {
        measurements.put(c, samples.stream().map(Measurement::of).toList(), provenance);
    }
}
