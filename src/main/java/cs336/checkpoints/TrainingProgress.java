package cs336.checkpoints;

import cs336.bench.ArgumentCheck;
import cs336.torch.Device;
import cs336.torch.Torch;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;

/**
 * The position of a training run, which a checkpoint stores as text: {@code step}, {@code sequences}, {@code heads},
 * {@code data}, {@code run.…} and, in Base64, {@code random.0}, {@code random.1} …
 *
 * @param steps number of steps that were trained
 * @param sequences number of sequences that all processes have taken from the data, at least one per step
 * @param heads number of attention heads of the model, which the shapes of its parameters do not show; 0 for a model
 *     without attention
 * @param data description of the data; null for a checkpoint without it
 * @param settings descriptions of the other options of the run by name, see {@link TrainingOptions#settings}; empty for
 *     a checkpoint without them
 * @param randomStates the state of each rank's random generator, see {@link cs336.torch.Torch#randomState}
 */
public record TrainingProgress(
        long steps, long sequences, int heads, String data, Map<String, String> settings, List<byte[]> randomStates) {
    private static final String STEP = "step";
    private static final String SEQUENCES = "sequences";
    private static final String HEADS = "heads";
    private static final String DATA = "data";
    private static final String SETTING = "run.";
    private static final String RANDOM = "random.";

    /** A resumed run may have fewer ranks and smaller batches than before, by up to this factor. */
    private static final long MOST_SHRINKAGE = 1024;

    /**
     * @throws IllegalArgumentException if a number is negative, or there are fewer sequences than steps: {@link #of}
     *     would refuse such a checkpoint
     */
    public TrainingProgress {
        Objects.requireNonNull(settings, "settings must not be null");
        Objects.requireNonNull(randomStates, "randomStates must not be null");
        ArgumentCheck.atLeast("steps", 0, steps);
        ArgumentCheck.atLeast("heads", 0, heads);
        if (sequences < steps) {
            throw new IllegalArgumentException(
                    "sequences must be at least the number of steps, " + steps + ", not " + sequences);
        }
    }

    /** The position before the first step. */
    public static final TrainingProgress START = new TrainingProgress(0, 0, 0, null, Map.of(), List.of());

    /**
     * Sets the state of a rank's random generator. Leaves it unchanged if the run had fewer ranks or another kind of
     * device.
     *
     * @param file the checkpoint, for error messages
     * @throws IllegalArgumentException if the state is damaged
     */
    public void restoreRandomState(Path file, int rank, Device device) {
        if (rank < randomStates.size() && randomStates.get(rank).length == Torch.randomState(device).length) {
            try {
                Torch.setRandomState(device, randomStates.get(rank));
            } catch (RuntimeException e) { // libtorch's error has several lines
                throw new IllegalArgumentException(
                        file + " has a metadata entry '" + RANDOM + rank
                                + "' that is not a state of a random generator",
                        e);
            }
        }
    }

    /**
     * Returns lines for the user: one if the run continues on other data, and one if it continues with other settings.
     * Data and settings that the checkpoint does not contain are not compared.
     *
     * @param file the checkpoint
     * @param nowData description of the data from now on
     * @param nowSettings the settings from now on
     */
    public List<String> changes(Path file, String nowData, Map<String, String> nowSettings) {
        var lines = new ArrayList<String>();
        if (data != null && !data.equals(nowData)) {
            lines.add(file + " was trained on " + data + "; this run continues on " + nowData);
        }
        List<String> changed = nowSettings.keySet().stream()
                .filter(name ->
                        settings.containsKey(name) && !settings.get(name).equals(nowSettings.get(name)))
                .toList();
        if (!changed.isEmpty()) {
            lines.add(file + " was trained with " + joined(changed, settings) + "; this run continues with "
                    + joined(changed, nowSettings));
        }
        return lines;
    }

    private static String joined(List<String> names, Map<String, String> settings) {
        return names.stream().map(settings::get).collect(Collectors.joining(", "));
    }

    /** Returns the text entries of a checkpoint. */
    Map<String, String> metadata() {
        var entries = new LinkedHashMap<String, String>();
        entries.put(STEP, String.valueOf(steps));
        entries.put(SEQUENCES, String.valueOf(sequences));
        entries.put(HEADS, String.valueOf(heads));
        if (data != null) {
            entries.put(DATA, data);
        }
        settings.forEach((name, setting) -> entries.put(SETTING + name, setting));
        for (int rank = 0; rank < randomStates.size(); rank++) {
            entries.put(RANDOM + rank, Base64.getEncoder().encodeToString(randomStates.get(rank)));
        }
        return entries;
    }

    /**
     * Reads the text entries of a checkpoint.
     *
     * @param file the checkpoint, whose name {@link CheckpointFolder} chose
     * @param heads number of attention heads of the resumed model
     * @param sequencesPerStep number of sequences that all processes take in a step of the resumed run
     * @throws IllegalArgumentException if an entry is missing or malformed, a number cannot belong to this file, or the
     *     model had another number of heads
     */
    public static TrainingProgress of(Path file, Map<String, String> metadata, int heads, long sequencesPerStep) {
        if (number(file, metadata, HEADS, "attention heads") != heads) {
            throw new IllegalArgumentException(file + " is a checkpoint of a model with " + metadata.get(HEADS)
                    + " attention heads, not " + heads);
        }
        var states = new ArrayList<byte[]>();
        for (String state; (state = metadata.get(RANDOM + states.size())) != null; ) {
            try {
                states.add(Base64.getDecoder().decode(state));
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException(
                        file + " has a metadata entry '" + RANDOM + states.size() + "' that is not Base64", e);
            }
        }
        long steps = number(file, metadata, STEP, "trained steps");
        if (steps > Integer.MAX_VALUE || steps != CheckpointFolder.step(file)) {
            throw new IllegalArgumentException(file + " has " + steps + " in its metadata entry '" + STEP
                    + "', which must be the number in its name and at most " + Integer.MAX_VALUE);
        }
        long sequences = number(file, metadata, SEQUENCES, "trained sequences");
        if (sequences < steps || sequences / MOST_SHRINKAGE > steps * sequencesPerStep) {
            throw new IllegalArgumentException(file + " has " + sequences + " in its metadata entry '" + SEQUENCES
                    + "', which must be from " + steps + " to " + MOST_SHRINKAGE + " times the "
                    + steps * sequencesPerStep + " sequences of " + steps + " steps");
        }
        var settings = new LinkedHashMap<String, String>();
        metadata.forEach((name, setting) -> {
            if (name.startsWith(SETTING)) {
                settings.put(name.substring(SETTING.length()), setting);
            }
        });
        return new TrainingProgress(steps, sequences, heads, metadata.get(DATA), settings, states);
    }

    private static long number(Path file, Map<String, String> metadata, String name, String what) {
        String number = metadata.get(name);
        if (number == null || !number.matches("\\d{1,18}")) {
            throw new IllegalArgumentException(
                    file + " has no number of " + what + " in its metadata entry '" + name + "'");
        }
        return Long.parseLong(number);
    }
}
