package cs336.scaling;

import cs336.units.Bytes;
import cs336.units.Seconds;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The time of a collective as a function of its bytes, interpolated linearly between measured sizes. Below the smallest
 * size the time is constant; above the largest it grows in proportion to the bytes.
 */
public final class TimeBySize {
    private final NavigableMap<Bytes, Seconds> measured;

    /** @throws IllegalArgumentException if nothing was measured */
    public TimeBySize(Map<Bytes, Seconds> measured) {
        if (measured.isEmpty()) {
            throw new IllegalArgumentException("measured must contain at least one size");
        }
        this.measured = new TreeMap<>(measured);
    }

    /** Returns the time of a collective of this size. */
    public Seconds at(Bytes bytes) {
        Map.Entry<Bytes, Seconds> below = measured.floorEntry(bytes);
        Map.Entry<Bytes, Seconds> above = measured.ceilingEntry(bytes);
        if (below == null) {
            return above.getValue();
        }
        if (above == null) {
            return below.getValue()
                    .times((double) bytes.count() / below.getKey().count());
        }
        long gap = above.getKey().count() - below.getKey().count();
        double fraction =
                gap == 0 ? 0 : (double) (bytes.count() - below.getKey().count()) / gap;
        return below.getValue().times(1 - fraction).plus(above.getValue().times(fraction));
    }
}
