package cs336.profile;

/**
 * A CPU thread.
 *
 * @param process process id as the trace writes it, usually a number
 * @param thread thread id as the trace writes it, usually a number
 */
public record HostThread(String process, String thread) implements Comparable<HostThread> {
    @Override
    public int compareTo(HostThread other) {
        int order = compareNames(process, other.process);
        return order != 0 ? order : compareNames(thread, other.thread);
    }

    /** Compares ids; numbers compare by value, 9 before 10. */
    private static int compareNames(String a, String b) {
        int order = Integer.compare(a.length(), b.length());
        return order != 0 ? order : a.compareTo(b);
    }

    @Override
    public String toString() {
        return process + "/" + thread;
    }
}
