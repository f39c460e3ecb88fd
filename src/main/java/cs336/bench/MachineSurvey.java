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
 * Properties of a machine, determined in a child process before a sweep. The process of the sweep itself never uses the
 * GPU, so that all of its memory is available to the cases. The child process also fills the cache into which JavaCPP
 * unpacks native libraries; several processes must not do this at the same time.
 *
 * @param provenance machine, device, versions and commit
 * @param device the requested device, with {@code best} resolved
 * @param availableBytes free memory of the device in bytes
 */
public record MachineSurvey(Provenance provenance, String device, long availableBytes) {
    /**
     * The time limit of the child process. The first run on a machine unpacks gigabytes of CUDA libraries, which takes
     * minutes on a slow disk.
     */
    private static final Duration TIME_LIMIT = Duration.ofMinutes(10);

    /** The message from the child process: a survey, or an error message if there is no such device. */
    private record SurveyReply(MachineSurvey survey, String error) {}

    /** Returns whether the device is a GPU. */
    public boolean isGpu() {
        return device.startsWith("cuda");
    }

    /**
     * Surveys this machine.
     *
     * @param device {@code best}, {@code cpu}, {@code cuda} or {@code cuda:N}
     * @throws IllegalArgumentException if there is no such device
     * @throws IOException if libtorch cannot be loaded
     */
    public static MachineSurvey of(String device) throws IOException, InterruptedException {
        SurveyReply reply;
        try (var jvm = ChildJvm.start(MachineSurvey.class)) {
            jvm.tell(device);
            String line = jvm.answer(TIME_LIMIT);
            if (line == null) {
                var ending = jvm.end();
                throw new IOException("libtorch could not be loaded (exit code " + ending.exitCode() + "): "
                        + String.join(" | ", ending.lastLines()));
            }
            reply = Worker.JSON.fromJson(line, SurveyReply.class);
        }
        if (reply.error != null) {
            throw new IllegalArgumentException(reply.error);
        }
        return reply.survey;
    }

    /** Runs the survey in the child process. */
    public static void main(String[] args) throws Exception {
        var parent = new ChildJvm.Child();
        try {
            Torch.load();
            Device device = Device.parse(parent.next());
            initialize(device);
            var survey = new MachineSurvey(Provenance.of(device), device.toString(), MemoryStats.available(device));
            parent.answer(Worker.JSON.toJson(new SurveyReply(survey, null)));
        } catch (IllegalArgumentException e) {
            parent.answer(Worker.JSON.toJson(new SurveyReply(null, e.getMessage())));
        }
        parent.end(0);
    }

    /** Allocates a tensor, which initializes CUDA, so that errors are reported here and not by the first case. */
    private static void initialize(Device device) {
        try (var scope = MemoryScope.open()) {
            torch.zeros(new long[] {1}, device.options(DType.FLOAT32));
            device.synchronize();
        }
    }
}
