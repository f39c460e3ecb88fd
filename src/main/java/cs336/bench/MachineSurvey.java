package cs336.bench;

import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.torch.MemoryStats;
import cs336.torch.Torch;
import java.io.IOException;
import java.time.Duration;
import org.bytedeco.pytorch.global.torch;

/**
 * What a machine offers, found out in a process of its own before a sweep: the process that leads the sweep never opens
 * the card, so that the cases have all of its memory. The same process warms the cache into which JavaCPP unpacks
 * native libraries, which several processes must not do at once.
 *
 * @param provenance machine, device, versions, commit
 * @param device the device that {@code best} stands for, or the one asked for
 * @param availableBytes free memory of the device
 */
public record MachineSurvey(Provenance provenance, String device, long availableBytes) {
    /** Unpacking gigabytes of CUDA libraries onto a slow disk takes minutes, once. */
    private static final Duration LIMIT = Duration.ofMinutes(10);

    /** A finding, or why there is none. */
    private record Answer(MachineSurvey survey, String complaint) {}

    /**
     * Surveys the machine with respect to {@code best}, {@code cpu}, {@code cuda} or {@code cuda:N}.
     *
     * @throws IllegalArgumentException if there is no such device
     * @throws IOException if libtorch does not load
     */
    public static MachineSurvey of(String device) throws IOException, InterruptedException {
        Answer answer;
        try (var jvm = ChildJvm.start(MachineSurvey.class)) {
            jvm.tell(device);
            String line = jvm.answer(LIMIT);
            if (line == null) {
                var ending = jvm.end();
                throw new IOException("libtorch did not load (exit code " + ending.exitCode() + "): "
                        + String.join(" | ", ending.said()));
            }
            answer = Worker.JSON.fromJson(line, Answer.class);
        }
        if (answer.complaint != null) throw new IllegalArgumentException(answer.complaint);
        return answer.survey;
    }

    /** The process that looks. */
    public static void main(String[] args) throws Exception {
        var parent = new ChildJvm.Child();
        try {
            Torch.load();
            Device device = Device.parse(parent.next());
            begin(device);
            var survey = new MachineSurvey(Provenance.of(device), device.toString(), MemoryStats.available(device));
            parent.answer(Worker.JSON.toJson(new Answer(survey, null)));
        } catch (IllegalArgumentException e) {
            parent.answer(Worker.JSON.toJson(new Answer(null, e.getMessage())));
        }
        parent.end(0);
    }

    /** The first allocation opens the card; what it cannot do, it says here and not in the first case. */
    private static void begin(Device device) {
        try (var scope = MemoryScope.open()) {
            torch.zeros(new long[] {1}, device.options(DType.FLOAT32));
            device.synchronize();
        }
    }
}
